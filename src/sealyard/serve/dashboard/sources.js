// One source for each API endpoint, polled while its page is visible.

import { get, Refusal } from "./api.js";

const LONGEST_WAIT = 60;
const ROWS_KEPT = 2_000;
const SCOPES = {
  observe: "Sign in with a token that has observe = true in http.principals.",
  approve: "Sign in with a token that has approve = true in http.principals, or with the gateway's key.",
};

/** Keeps the last answer of an endpoint. `error` is the last refusal, or null after a later success. */
export class Source {
  /** `query(state)` makes the parameters; `every` is in seconds; `needs` is a scope; `rows` names the paged list. */
  constructor(path, { query = () => ({}), every, needs = null, rows = null, id = null, isWhole = false }) {
    Object.assign(this, { path, query, every, needs, rows, id, isWhole });
    this.turn = 0;
    this.reset();
  }

  /** Drop the value and any request in flight. */
  reset() {
    this.turn += 1;
    Object.assign(this, { value: null, error: null, at: 0, due: 0, failures: 0, isAsking: false });
  }

  /** Schedule the next request within `wait` seconds. */
  hurry(wait = 0) {
    this.due = Math.min(this.due, now() + wait);
  }

  /** Send the request and keep the response. Rejects only on a bug in this page. */
  async ask(state) {
    const { turn } = this;
    Object.assign(this, { isAsking: true, due: Infinity });
    try {
      if (this.needs !== null && !state.me[this.needs]) throw new Refusal(403, "forbidden", SCOPES[this.needs]);
      const value = await this.fetch(state);
      if (turn !== this.turn) return;
      Object.assign(this, { value: this.joined(value), error: null, failures: 0, at: now() });
      this.hurry(this.every);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (turn !== this.turn) return;
      this.failures += 1;
      this.error = error;
      this.hurry(
        error.status === 403 ? LONGEST_WAIT : (error.retrySeconds ?? Math.min(LONGEST_WAIT, 2 ** this.failures)),
      );
    } finally {
      if (turn === this.turn) this.isAsking = false;
    }
  }

  /** Append the next page. Rejects with `Refusal`. */
  async older(state) {
    const { turn, value } = this;
    const page = await get(this.path, { ...this.query(state), cursor: value.next_cursor });
    if (turn !== this.turn) return;
    this.value = { ...page, [this.rows]: this.union(this.value[this.rows], page[this.rows]) };
  }

  async fetch(state) {
    const value = await get(this.path, this.query(state));
    while (this.isWhole && value.next_cursor && value[this.rows].length < ROWS_KEPT) {
      const page = await get(this.path, { ...this.query(state), cursor: value.next_cursor });
      value[this.rows] = this.union(value[this.rows], page[this.rows]);
      value.next_cursor = page.next_cursor;
    }
    return value;
  }

  /** Put a fresh first page in front of the older ones if they overlap, else replace them. */
  joined(value) {
    if (this.rows === null || this.isWhole || this.value === null) return value;
    const fresh = new Set(value[this.rows].map((row) => this.id(row)));
    const before = this.value[this.rows];
    if (!before.some((row) => fresh.has(this.id(row)))) return value;
    const first = before.findIndex((row) => fresh.has(this.id(row)));
    const all = this.union(value[this.rows], before.slice(first));
    const isLonger = all.length > value[this.rows].length;
    return { ...value, [this.rows]: all, next_cursor: isLonger ? this.value.next_cursor : value.next_cursor };
  }

  union(rows, more) {
    const known = new Set(rows.map((row) => this.id(row)));
    return [...rows, ...more.filter((row) => !known.has(this.id(row)))].slice(0, ROWS_KEPT);
  }
}

const inWindow = (state) => ({ window: state.window });

/** The endpoints that pages read. */
export const sources = {
  report: new Source("metrics", { query: inWindow, every: 10, needs: "observe" }),
  series: new Source("metrics/series", { query: inWindow, every: 20, needs: "observe" }),
  usage: new Source("usage", { query: inWindow, every: 30 }),
  approvals: new Source("approvals", { every: 10, needs: "approve" }),
  alerts: new Source("alerts", { every: 20, needs: "observe" }),
  policy: new Source("policy", { every: 60, needs: "observe" }),
  insights: new Source("learning/insights", { every: 20, needs: "observe" }),
  upstreams: new Source("upstreams", { every: 10 }),
  profiles: new Source("profiles", { every: 60 }),
  runs: new Source("executions", {
    query: ({ filter }) => ({ limit: 50, ...filter }),
    every: 15,
    rows: "executions",
    id: (row) => row.execution_id,
  }),
  tools: new Source("tools", {
    query: () => ({ limit: 200 }),
    every: 60,
    rows: "tools",
    id: (row) => row.name,
    isWhole: true,
  }),
  skills: new Source("skills", {
    query: () => ({ limit: 200 }),
    every: 60,
    rows: "skills",
    id: ({ namespace, name }) => `${namespace} ${name}`,
    isWhole: true,
  }),
  audit: new Source("audit", { query: () => ({ limit: 50 }), every: 15, rows: "entries", id: (row) => row.number }),
};

function now() {
  return Date.now() / 1000;
}
