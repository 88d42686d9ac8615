// Who uses the gateway for what: use cases, combinations of tools, principals, length of code.

import { el } from "./dom.js";
import { bytes, count, percent, seconds, whole, words } from "./format.js";
import { bars, empty, facts, figure, from, meter, panel, share, table, time, tool } from "./parts.js";
import { sources } from "./sources.js";

const PRINCIPALS = [
  { label: "Principal", wide: true },
  { label: "Visits", right: true },
  { label: "With code", right: true },
  { label: "Searches", right: true },
  { label: "Runs", right: true },
  { label: "Failed", right: true },
  { label: "Calls", right: true },
];
const CASES = [
  { label: "Use case", wide: true },
  { label: "Baseline", right: true },
  { label: "Actual", right: true },
  { label: "Kept out", right: true },
];
const COMBINATIONS = [
  { label: "Tools of one run", wide: true },
  { label: "Runs", right: true },
  { label: "Ended well", right: true },
];

/** The whole page. */
export function usage(state, act) {
  const again = { hurry: () => act.hurry("usage") };
  const report = { hurry: () => act.hurry("report") };
  return [
    el("h1", {}, "Usage"),
    el(
      "div",
      { class: "columns", key: "columns" },
      panel(
        "Runs by use case",
        { id: "cases" },
        from(
          sources.usage,
          (value) => [cut(value), bars("", value.use_cases, { none: "Nothing ran in this time." })],
          again,
        ),
      ),
      panel(
        "Code and sessions",
        { id: "code" },
        from(sources.usage, ({ code }) => codeFacts(code), again),
      ),
    ),
    panel(
      "Tokens by use case",
      { id: "tokens" },
      from(sources.report, ({ tokens }) => caseTable(tokens.by_use_case), report),
    ),
    panel(
      "Tools used together",
      { id: "together" },
      from(sources.usage, ({ combinations }) => combinationTable(combinations), again),
    ),
    panel(
      "Principals",
      { id: "principals" },
      from(sources.usage, ({ principals }) => principalTable(principals), again),
    ),
    panel(
      "Cost of the sandbox",
      { id: "sandbox" },
      from(sources.report, (value) => sandbox(value), report),
    ),
  ];
}

function cut(value) {
  const asked = sources.report.value?.since;
  return asked && value.since > asked + 1
    ? el("p", { class: "stale" }, "There is too much to count; this is since ", time(value.since), ".")
    : null;
}

function codeFacts(code) {
  const report = sources.report.value;
  return facts([
    ["runs of code", whole(code.runs)],
    ["half of them are at most", code.p50_characters === null ? "–" : `${whole(code.p50_characters)} characters`],
    ["nineteen of twenty at most", code.p95_characters === null ? "–" : `${whole(code.p95_characters)} characters`],
    report ? ["visits of agents", figure("sessions.count", report.sessions.count, whole)] : null,
    report ? ["visits that ran code", figure("sessions.code_share", report.sessions.code_share, percent)] : null,
  ]);
}

function caseTable(cases) {
  const names = Object.keys(cases ?? {}).sort((a, b) => cases[b].saved - cases[a].saved);
  if (names.length === 0) return empty("No token was counted in this time.");
  const row = (name) => {
    const path = (part) => `tokens.by_use_case.${name}.${part}`;
    const { baseline, actual, saved } = cases[name];
    return {
      key: name,
      cells: [
        words(name),
        figure(path("baseline"), baseline, count),
        figure(path("actual"), actual, count),
        [
          figure(path("saved"), saved, count),
          " ",
          saved > 0 ? el("span", { class: "dim" }, share(saved, baseline)) : null,
        ],
      ],
    };
  };
  return table("Tokens by use case", CASES, names.map(row));
}

function combinationTable(combinations) {
  if (combinations.length === 0) return empty("No run called two tools in this time.");
  const row = ({ tools, runs, ok }) => ({
    key: tools.join(" "),
    cells: [
      el(
        "span",
        { class: "together" },
        tools.map((name) => tool(name)),
      ),
      count(runs),
      share(ok, runs),
    ],
  });
  return table("Combinations of tools", COMBINATIONS, combinations.slice(0, 20).map(row));
}

function principalTable(principals) {
  if (principals.length === 0) return empty("Nobody was here in this time.");
  const row = (each) => ({
    key: each.principal,
    cells: [
      each.principal,
      count(each.sessions),
      percent(each.code_share),
      count(each.searches),
      count(each.executions),
      share(each.failed, each.executions),
      count(each.calls),
    ],
  });
  return table("Principals", PRINCIPALS, principals.map(row));
}

function sandbox({ execution, sdk, filtering }) {
  return [
    facts([
      ["processor time", figure("execution.cpu_seconds", execution.cpu_seconds, seconds)],
      ["memory (p95)", figure("execution.memory_p95_bytes", execution.memory_p95_bytes, bytes)],
      ["calls of tools", figure("execution.calls", execution.calls, count)],
      ["in the background", figure("execution.background", execution.background, count)],
      ["stubs written", figure("sdk.generations", sdk.generations, count)],
      ["for writing them (p50)", figure("sdk.p50_seconds", sdk.p50_seconds, seconds)],
      ["in from tools", figure("filtering.bytes_in", filtering.bytes_in, bytes)],
      ["out to agents", figure("filtering.bytes_out", filtering.bytes_out, bytes)],
      [
        "kept in the sandbox",
        [meter(filtering.reduction), figure("filtering.reduction", filtering.reduction, percent)],
      ],
    ]),
  ];
}
