// One run in the drawer: code, tool calls, output and result.

import { args } from "./approvals.js";
import { el } from "./dom.js";
import { bytes, count, seconds } from "./format.js";
import { drawer, empty, facts, json, part, status, time, tool } from "./parts.js";
import { code } from "./python.js";
import { waterfall } from "./waterfall.js";

/** The drawer's content. */
export function runDrawer(shown, state, act) {
  return drawer(["Run ", el("code", {}, shown.id)], shown, act, (run) =>
    details(run, state.live.runs.get(shown.id), state, act),
  );
}

function details(run, live, state, act) {
  const failure = run.details ?? live?.failure ?? null;
  const isRunning = run.status === "running";
  const output = isRunning && live !== undefined && live.output.length > run.output.length ? live.output : run.output;
  const end = run.ended_at ?? state.now;
  return [
    el(
      "div",
      { class: "line" },
      status(run.status),
      el("span", { class: "dim" }, [run.principal, run.session, run.form].filter(Boolean).join(" · ")),
      isRunning
        ? el(
            "button",
            {
              type: "button",
              class: "small push",
              disabled: state.busy.has(run.execution_id),
              onclick: () => act.cancel(run.execution_id),
            },
            "Cancel",
          )
        : null,
    ),
    about(run, end),
    failure === null ? null : failed(failure),
    run.code === "" ? null : part("Code", code(run.code, failure?.line ?? null)),
    hasAny(run.context) ? part("Context", json(run.context)) : null,
    part("Tool calls", callsOf(run, live, end)),
    output === ""
      ? null
      : part("Output", el("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, output)),
    isRunning ? null : part("Result", run.result === null ? empty("None.") : json(run.result)),
    run.file === null
      ? null
      : el("p", { class: "dim small" }, `Preview only. The full result is in the workspace at ${run.file}.`),
    run.notes.map((note) => el("p", { class: "dim small" }, note)),
  ];
}

function hasAny(value) {
  if (value === null || value === undefined) return false;
  return typeof value !== "object" || Object.keys(value).length > 0;
}

function about(run, end) {
  const usage = run.usage ?? {};
  return facts([
    ["started", time(run.started_at)],
    ["duration", seconds(run.seconds ?? end - run.started_at)],
    ["tool calls", count(Math.max(run.calls, run.made.length))],
    hasAny(usage.cpu_seconds) ? ["CPU time", seconds(usage.cpu_seconds)] : null,
    hasAny(usage.memory_peak_bytes) ? ["peak memory", bytes(usage.memory_peak_bytes)] : null,
    run.level === null ? null : ["isolation", `${run.level} · ${run.tier}`],
  ]);
}

function failed(failure) {
  return el(
    "section",
    { class: "failure", key: "failure", "aria-label": "Error" },
    el(
      "p",
      {},
      el("b", {}, failure.type),
      failure.message ? `: ${failure.message}` : "",
      failure.line ? el("span", { class: "dim" }, ` (line ${failure.line})`) : null,
    ),
    failure.hint ? el("p", { class: "dim" }, failure.hint) : null,
    failure.traceback
      ? el(
          "details",
          {},
          el("summary", {}, "Traceback"),
          el("pre", { class: "data", tabindex: "0" }, failure.traceback),
        )
      : null,
  );
}

function callsOf(run, live, end) {
  const known = new Map((live ? [...live.calls.values()] : []).map((call) => [call.number, { ...call, record: null }]));
  for (const record of run.made) {
    known.set(record.number, {
      number: record.number,
      tool: record.tool,
      at: record.started_at,
      seconds: record.seconds,
      error: record.error,
      bytes: record.answer_bytes,
      record,
    });
  }
  const all = [...known.values()].sort((a, b) => a.number - b.number);
  const waiting = run.asks.filter((ask) => ask.tool !== "execute_code").length; // not an approval of the run itself
  const rest = run.calls - all.length - waiting;
  if (all.length + run.asks.length === 0) return empty("No tool calls.");
  return [
    run.asks.map((ask) =>
      el(
        "p",
        { class: "warning" },
        tool(ask.tool),
        " is waiting for approval. ",
        el("a", { href: "#/approvals" }, "Review"),
      ),
    ),
    waterfall(all, run.started_at, end, ({ record }) => (record === null ? null : exchange(record))),
    rest > 0 ? el("p", { class: "dim small" }, `and ${count(rest)} more`) : null,
  ];
}

function exchange(record) {
  return el(
    "details",
    { class: "exchange" },
    el("summary", {}, "Arguments and response"),
    record.arguments === null ? gone("arguments were") : args({ arguments: record.arguments, isWhole: true }),
    record.error
      ? null
      : record.answer === null || record.answer === undefined
        ? gone("response was")
        : json(record.answer),
    el(
      "p",
      { class: "dim small" },
      `version ${record.version}${record.upstream ? `, upstream ${record.upstream}` : ""}`,
    ),
  );
}

function gone(what) {
  return el("p", { class: "dim small" }, `The ${what} too large to store.`);
}
