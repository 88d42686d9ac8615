// Running executions, from the gateway's server-sent events.

import { address, get, Refusal, segment } from "./api.js";

const KINDS = ["started", "queued", "begun", "output", "call", "called", "asked", "answered", "ended", "lagged"];
const OUTPUT_CHARACTERS = 16_384;
const CALLS_KEPT = 200;
const ENDED_KEPT = 5;
const OVER_KEPT = 500;
const SEEDED = 50;
const RETRY_SECONDS = [1, 2, 5, 10, 20];

/** Running and recently finished executions; `state` is `connecting`, `live`, `lost` or `paused`. */
export class Live {
  /** `onChange(kind, event)` is called after every event, and with null when the connection changes. */
  constructor(onChange) {
    this.runs = new Map();
    this.over = new Set();
    this.state = "connecting";
    this.onChange = onChange;
    this.tries = 0;
    this.source = null;
    this.timer = 0;
  }

  open() {
    this.close();
    const source = (this.source = new EventSource(address("events")));
    source.onopen = () => {
      this.tries = 0;
      this.turn("live");
      this.seed();
    };
    source.onerror = () => {
      // The browser reconnects after a break, but not after a response that is not a stream.
      this.turn("lost");
      if (source.readyState === EventSource.CLOSED) this.retry();
    };
    for (const kind of KINDS) source.addEventListener(kind, (event) => this.take(kind, event));
  }

  /** Close the connection while the page is hidden. */
  pause() {
    this.close();
    this.turn("paused");
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  retry() {
    clearTimeout(this.timer);
    const wait = RETRY_SECONDS[Math.min(this.tries, RETRY_SECONDS.length - 1)];
    this.tries += 1;
    this.timer = setTimeout(() => this.open(), wait * 1000);
  }

  turn(state) {
    if (this.state === state) return;
    this.state = state;
    this.onChange(null, null);
  }

  /** The runs: running ones first, then newest first. */
  list() {
    return [...this.runs.values()].sort(
      (a, b) => (a.endedAt === null ? 0 : 1) - (b.endedAt === null ? 0 : 1) || b.startedAt - a.startedAt,
    );
  }

  /** Load the runs that started before this page was opened. */
  async seed() {
    let answer;
    try {
      answer = await get("executions", { status: "running", limit: SEEDED });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return; // the next connection retries
    }
    const under = new Set(answer.executions.map((each) => each.execution_id));
    for (const [id, run] of this.runs) {
      if (run.endedAt === null && run.startedAt < Date.now() / 1000 - 5 && !under.has(id)) this.runs.delete(id);
    }
    for (const each of answer.executions) {
      const id = each.execution_id;
      if (this.over.has(id)) continue; // the journal records an end a moment later
      const run = this.runs.get(id) ?? this.add(id, each.principal, each.started_at, each);
      if (!run.isWhole) this.seedRun(run);
    }
    this.onChange(null, null);
  }

  /** Load the calls and output that a run made before this page saw it. */
  async seedRun(run) {
    const place = `executions/${segment(run.id)}`;
    run.isWhole = true;
    try {
      const [detail, { calls }] = await Promise.all([get(place), get(`${place}/calls`, { limit: CALLS_KEPT })]);
      if (detail.status !== "running" || run.endedAt !== null) return; // its end is already here or on its way
      for (const { number, tool, seconds, error, answer_bytes: size, started_at: at } of calls) {
        if (!(run.calls.get(number)?.seconds > 0))
          run.calls.set(number, { number, tool, at, seconds, error, bytes: size });
      }
      run.calls = new Map([...run.calls].sort((a, b) => a[0] - b[0]));
      for (const ask of detail.asks) run.asks.set(ask.id, ask);
      Object.assign(run, {
        form: detail.form,
        session: detail.session,
        background: detail.background,
        isQueued: detail.queued,
        startedAt: detail.started_at,
      });
      run.output = joined(detail.output, run.output);
      this.onChange(null, null);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error; // the next connection retries
    }
  }

  add(id, principal, startedAt, about) {
    const run = {
      id,
      principal,
      startedAt,
      form: about.form ?? "code",
      session: about.session ?? "",
      background: about.background ?? false,
      isQueued: about.queued ?? false,
      calls: new Map(),
      asks: new Map(),
      output: "",
      cut: false,
      isWhole: false,
      status: "running",
      endedAt: null,
      seconds: null,
      failure: null,
    };
    this.runs.set(id, run);
    return run;
  }

  take(kind, message) {
    const event = JSON.parse(message.data);
    if (kind === "lagged") {
      this.seed();
      return;
    }
    const known = this.runs.get(event.execution_id);
    const run = known ?? this.add(event.execution_id, event.principal, event.at, event);
    if (kind === "started") run.isWhole = true;
    else if (known === undefined && kind !== "ended") this.seed();
    this.apply[kind](run, event);
    if (kind === "ended") this.forget(run.id);
    this.onChange(kind, event);
  }

  apply = {
    started: (run, { form, session, background, at }) =>
      Object.assign(run, { form, session, background, startedAt: at }),
    queued: (run) => (run.isQueued = true),
    begun: (run) => (run.isQueued = false),
    output: (run, { text }) => {
      run.output += text;
      if (run.output.length > OUTPUT_CHARACTERS) {
        run.output = run.output.slice(-OUTPUT_CHARACTERS);
        run.cut = true;
      }
    },
    call: (run, { number, tool, at }) => {
      run.calls.set(number, { number, tool, at, seconds: null, error: null, bytes: null });
      if (run.calls.size > CALLS_KEPT) run.calls.delete(run.calls.keys().next().value);
    },
    called: (run, { number, tool, seconds, error = null, bytes = null, at }) => {
      const begun = run.calls.get(number)?.at ?? at - seconds;
      run.calls.set(number, { number, tool, at: begun, seconds, error, bytes });
    },
    asked: (run, event) => run.asks.set(event.id, event),
    answered: (run, { id }) => run.asks.delete(id),
    ended: (run, { status, seconds, failure = null, at }) => {
      Object.assign(run, { status, seconds, failure, endedAt: at });
      run.asks.clear();
    },
  };

  /** Keep the last finished runs, and only the ids of some earlier ones. */
  forget(id) {
    this.over.add(id);
    if (this.over.size > OVER_KEPT) this.over.delete(this.over.values().next().value);
    const ended = [...this.runs.values()].filter((run) => run.endedAt !== null).sort((a, b) => b.endedAt - a.endedAt);
    for (const run of ended.slice(ENDED_KEPT)) this.runs.delete(run.id);
  }
}

/** Join two pieces of output, which may overlap. */
function joined(before, after) {
  if (before.includes(after)) return before;
  for (let shared = Math.min(before.length, after.length); shared > 0; shared -= 1) {
    if (before.endsWith(after.slice(0, shared))) return before + after.slice(shared);
  }
  return before + after;
}
