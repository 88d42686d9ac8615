// The Usage page: use cases, tool combinations, principals, code size and sandbox cost.

import { el } from "./dom.js";
import { bytes, count, percent, seconds, whole, words } from "./format.js";
import { bars, empty, facts, figure, from, meter, numeric, panel, share, table, time, tool, wide } from "./parts.js";
import { sources } from "./sources.js";

const PRINCIPALS = [
  ...wide("Principal"),
  ...numeric("Visits", "With code", "Searches", "Runs", "Failed", "Tool calls"),
];
const CASES = [...wide("Use case"), ...numeric("Baseline", "Actual", "Saved")];
const COMBINATIONS = [...wide("Tools in one run"), ...numeric("Runs", "Succeeded")];

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
          (value) => [cut(value), bars("", value.use_cases, { none: "No runs in this time range." })],
          again,
        ),
      ),
      panel(
        "Code and visits",
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
      "Sandbox usage",
      { id: "sandbox" },
      from(sources.report, (value) => sandbox(value), report),
    ),
  ];
}

function cut(value) {
  const asked = sources.report.value?.since;
  return asked && value.since > asked + 1
    ? el("p", { class: "stale" }, "Too many records to count; figures start at ", time(value.since), ".")
    : null;
}

function codeFacts(code) {
  const report = sources.report.value;
  return facts([
    ["code runs", whole(code.runs)],
    ["code size (p50)", code.p50_characters === null ? "–" : `${whole(code.p50_characters)} characters`],
    ["code size (p95)", code.p95_characters === null ? "–" : `${whole(code.p95_characters)} characters`],
    report ? ["visits", figure("sessions.count", report.sessions.count, whole)] : null,
    report ? ["visits that ran code", figure("sessions.code_share", report.sessions.code_share, percent)] : null,
  ]);
}

function caseTable(cases) {
  const names = Object.keys(cases ?? {}).sort((a, b) => cases[b].saved - cases[a].saved);
  if (names.length === 0) return empty("No tokens counted in this time range.");
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
  if (combinations.length === 0) return empty("No run called two tools in this time range.");
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
  return table("Tool combinations", COMBINATIONS, combinations.slice(0, 20).map(row));
}

function principalTable(principals) {
  if (principals.length === 0) return empty("No activity in this time range.");
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
      ["CPU time", figure("execution.cpu_seconds", execution.cpu_seconds, seconds)],
      ["memory (p95)", figure("execution.memory_p95_bytes", execution.memory_p95_bytes, bytes)],
      ["tool calls", figure("execution.calls", execution.calls, count)],
      ["background runs", figure("execution.background", execution.background, count)],
      ["stub generations", figure("sdk.generations", sdk.generations, count)],
      ["generation time (p50)", figure("sdk.p50_seconds", sdk.p50_seconds, seconds)],
      ["bytes from tools", figure("filtering.bytes_in", filtering.bytes_in, bytes)],
      ["bytes to agents", figure("filtering.bytes_out", filtering.bytes_out, bytes)],
      [
        "filtered out in the sandbox",
        [meter(filtering.reduction), figure("filtering.reduction", filtering.reduction, percent)],
      ],
    ]),
  ];
}
