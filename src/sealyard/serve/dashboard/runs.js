// The Runs page: the history of runs, newest first.

import { el } from "./dom.js";
import { count, seconds } from "./format.js";
import { liveRuns } from "./liveview.js";
import { empty, from, numeric, panel, short, status, table, time, wide } from "./parts.js";
import { sources } from "./sources.js";

const STATUSES = ["running", "ok", "failed", "timeout", "limit", "broken", "cancelled", "lost"];
const COLUMNS = [
  ...short("Started", "Status", "Run"),
  ...wide("Details"),
  ...short("Principal"),
  ...numeric("Tool calls", "Duration"),
];

/** The whole page. */
export function runs(state, act) {
  return [
    el("h1", {}, "Runs"),
    liveRuns(state, act),
    panel(
      "History",
      { id: "history", actions: filters(state, act) },
      from(sources.runs, (value) => history(value, state, act), { hurry: () => act.hurry("runs") }),
    ),
  ];
}

function filters(state, act) {
  return el(
    "form",
    { class: "filters", onsubmit: (event) => (event.preventDefault(), act.filter(event.currentTarget)) },
    el(
      "label",
      {},
      "Status ",
      el(
        "select",
        { name: "status", onchange: (event) => act.filter(event.currentTarget.form) },
        el("option", { value: "" }, "all"),
        STATUSES.map((each) => el("option", { value: each, selected: state.filter.status === each }, each)),
      ),
    ),
    el(
      "label",
      {},
      "Principal ",
      el("input", {
        name: "principal",
        type: "text",
        autocomplete: "off",
        spellcheck: "false",
        value: state.filter.principal ?? "",
        onchange: (event) => act.filter(event.currentTarget.form),
      }),
    ),
  );
}

function history({ executions, next_cursor: cursor }, state, act) {
  if (executions.length === 0) return empty("No runs found.", "Every run of every agent is listed here.");
  const rows = executions.map((run) => ({ key: run.execution_id, cells: cells(run, state) }));
  return [
    table("Runs, newest first", COLUMNS, rows),
    cursor === null || cursor === undefined
      ? null
      : el(
          "p",
          { class: "older" },
          el(
            "button",
            { type: "button", disabled: state.busy.has("older runs"), onclick: () => act.older("runs") },
            "Older runs",
          ),
        ),
  ];
}

function cells(run, state) {
  const took = run.seconds ?? state.now - run.started_at;
  return [
    time(run.started_at),
    status(run.status),
    el("a", { href: `#/runs/${encodeURIComponent(run.execution_id)}`, class: "code" }, run.execution_id),
    summary(run),
    [el("span", {}, run.principal), run.session && run.session !== "default" ? el("span", { class: "dim" }, ` · ${run.session}`) : null],
    count(run.calls),
    seconds(took),
  ];
}

function summary(run) {
  if (run.failure !== null)
    return el(
      "span",
      { class: "error clip", title: run.failure.message },
      el("b", {}, run.failure.type),
      " ",
      run.failure.message,
    );
  const waits = run.waiting > 0 ? el("span", { class: "chip is-warn" }, `${count(run.waiting)} pending`) : null;
  return el(
    "span",
    { class: "dim" },
    run.form === "code" ? `code, ${count(run.code_characters)} characters` : run.form,
    run.background ? " · background" : "",
    waits,
  );
}
