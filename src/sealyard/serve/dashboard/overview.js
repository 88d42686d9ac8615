// The Overview page: key figures, pending approvals, live runs, charts, errors and upstreams.

import { approvals } from "./approvals.js";
import { el } from "./dom.js";
import { bytes, count, dollars, percent, seconds, whole, words } from "./format.js";
import { unmatched } from "./guard.js";
import { liveRuns } from "./liveview.js";
import { bars, empty, figure, from, meter, panel, status } from "./parts.js";
import { sources } from "./sources.js";

/** The whole page. */
export function overview(state, act) {
  return [
    el("h1", { class: "unseen" }, "Overview"),
    from(sources.report, (report) => tiles(report, state), { hurry: () => act.hurry("report") }),
    unmatched(),
    state.waiting > 0 ? approvals(state, act) : null,
    liveRuns(state, act),
    el(
      "div",
      { class: "charts", key: "charts" },
      CHARTS.map(({ id }) => el("div", { class: "panel chart", key: id, "data-chart": id, opaque: true })),
    ),
    el("div", { class: "columns", key: "columns" }, errors(act), health(act)),
  ];
}

/** The time series charts; each is drawn into the element with its `data-chart`. */
export const CHARTS = [
  {
    id: "runs",
    title: "Runs",
    kind: "bars",
    isWhole: true,
    least: 4,
    format: count,
    series: [
      { label: "succeeded", tone: "accent", value: (point) => point.executions - point.failed },
      { label: "failed", tone: "bad", value: (point) => point.failed },
    ],
    summary: (points) => `${whole(sum(points, "executions"))} runs, ${whole(sum(points, "failed"))} failed.`,
  },
  {
    id: "latency",
    title: "Latency",
    kind: "lines",
    format: seconds,
    series: [
      { label: "p50", tone: "accent", value: (point) => point.p50_seconds },
      { label: "p95", tone: "second", value: (point) => point.p95_seconds },
    ],
    summary: (points) =>
      `The highest p95 is ${seconds(Math.max(0, ...points.map((point) => point.p95_seconds ?? 0)))}.`,
  },
  {
    id: "tokens",
    title: "Tokens",
    kind: "lines",
    isWhole: true,
    least: 100,
    format: count,
    series: [
      { label: "baseline", tone: "base", area: true, value: (point) => point.baseline_tokens },
      { label: "actual", tone: "accent", area: true, value: (point) => point.actual_tokens },
    ],
    summary: (points) =>
      `${whole(sum(points, "baseline_tokens"))} baseline, ${whole(sum(points, "actual_tokens"))} actual.`,
  },
  {
    id: "bytes",
    title: "Sandbox traffic",
    kind: "lines",
    isWhole: true,
    least: 1000,
    format: bytes,
    series: [
      { label: "from tools", tone: "base", area: true, value: (point) => point.bytes_in },
      { label: "to agents", tone: "accent", area: true, value: (point) => point.bytes_out },
    ],
    summary: (points) => `${bytes(sum(points, "bytes_in"))} in, ${bytes(sum(points, "bytes_out"))} out.`,
  },
];

function sum(points, name) {
  return points.reduce((total, point) => total + point[name], 0);
}

function tiles(report, state) {
  const { execution, discovery, security } = report;
  return el(
    "div",
    { class: "tiles", key: "tiles" },
    kept(report),
    money(report),
    tile(
      "Runs",
      figure("execution.count", execution.count, count),
      [
        [figure("execution.success_rate", execution.success_rate, percent), " succeeded"],
        [figure("execution.timeouts", execution.timeouts, count), " timed out"],
      ],
      "#/runs",
    ),
    tile("Latency (p50)", figure("execution.p50_seconds", execution.p50_seconds, seconds), [
      [figure("execution.p95_seconds", execution.p95_seconds, seconds), " p95"],
      [figure("execution.p99_seconds", execution.p99_seconds, seconds), " p99"],
    ]),
    tile("Search success", figure("discovery.hit_rate", discovery.hit_rate, percent), [
      ["of ", figure("discovery.queries", discovery.queries, count), " searches led to a tool call"],
    ]),
    tile(
      "Private values",
      figure("security.hidden_total", security.hidden_total, count),
      ["concealed from agents", [figure("security.revealed", security.revealed, count), " revealed to operators"]],
      "#/privacy",
    ),
    waiting(state, security),
    firing(),
  );
}

function tile(title, value, notes, href = null, extra = "") {
  const heading = href === null ? title : el("a", { href }, title);
  return el(
    "div",
    { class: `tile ${extra}`, key: title },
    el("h2", {}, heading),
    el("p", { class: "value" }, value),
    notes.map((note) => el("p", { class: "sub" }, note)),
  );
}

function kept({ tokens, tokenizer }) {
  return el(
    "div",
    { class: "tile hero", key: "kept" },
    el("h2", {}, "Tokens saved"),
    el(
      "p",
      { class: "value" },
      figure("tokens.saved", tokens.saved, count),
      el("small", {}, figure("tokens.saved_share", tokens.saved_share, percent)),
    ),
    compare(tokens),
    el("p", { class: "sub" }, perConversation(tokens.per_session)),
    el(
      "p",
      { class: "sub" },
      "counted with ",
      el("code", { "data-metric": "tokenizer", "data-value": tokenizer }, tokenizer),
      tokens.uncounted_bytes > 0
        ? [", excluding ", figure("tokens.uncounted_bytes", tokens.uncounted_bytes, bytes)]
        : null,
    ),
  );
}

function perConversation(mean) {
  if (mean === null) return "No conversation began in this time range.";
  const at = (name) => figure(`tokens.per_session.${name}`, mean[name], count);
  return ["per conversation ", at("baseline"), " → ", at("actual"), ", on average of ", at("sessions")];
}

function compare({ baseline, actual }) {
  return el(
    "div",
    { class: "compare" },
    el("span", {}, "baseline"),
    meter(baseline ? 1 : 0, "base"),
    figure("tokens.baseline", baseline, count),
    el("span", {}, "actual"),
    meter(baseline ? Math.max(actual / baseline, actual ? 0.004 : 0) : 0),
    figure("tokens.actual", actual, count),
  );
}

function money({ tokens, prices }) {
  return tile("Cost saved", figure("tokens.dollars_saved", tokens.dollars_saved, dollars), [
    [
      figure("tokens.dollars_baseline", tokens.dollars_baseline, dollars),
      " → ",
      figure("tokens.dollars_actual", tokens.dollars_actual, dollars),
    ],
    [
      "at ",
      figure("prices.input", prices.input, dollars),
      " in, ",
      figure("prices.output", prices.output, dollars),
      " out per million tokens",
    ],
  ]);
}

function waiting(state, security) {
  const is = state.waiting > 0;
  return tile(
    "Pending approvals",
    el(
      "span",
      { class: "figure", "data-count": "approvals", "data-value": String(state.waiting) },
      count(state.waiting),
    ),
    [
      [figure("security.approved", security.approved, count), " approved"],
      [figure("security.refused", security.refused, count), " refused"],
    ],
    "#/approvals",
    is ? "is-warn" : "",
  );
}

function firing() {
  const { value } = sources.alerts;
  const found = (value?.alerts ?? []).filter((alert) => alert.state === "firing");
  const names = [...new Set(found.map((alert) => words(alert.rule)))];
  return tile(
    "Alerts",
    el(
      "span",
      { class: "figure", "data-count": "alerts", "data-value": String(found.length) },
      value === null ? "–" : count(found.length),
    ),
    [
      value === null
        ? "unknown"
        : names.length
          ? names.slice(0, 2).join(", ") + (names.length > 2 ? " …" : "")
          : "all clear",
    ],
    "#/alerts",
    found.length > 0 ? "is-bad" : "",
  );
}

function errors(act) {
  return panel(
    "Errors by type",
    { id: "errors" },
    from(
      sources.report,
      ({ execution }) =>
        bars("execution.errors", execution.errors, {
          tone: "bad",
          label: (name) => name,
          none: "No errors in this time range.",
        }),
      { hurry: () => act.hurry("report") },
    ),
  );
}

function health(act) {
  const rows = (list) =>
    list.length === 0
      ? empty("No upstreams configured.", "Add one to sealyard.toml.")
      : el(
          "ul",
          { class: "health" },
          list.map((each) =>
            el(
              "li",
              { key: each.name },
              el("a", { href: "#/upstreams" }, each.name),
              status(each.state),
              el("span", { class: "dim" }, each.error ?? `${whole(each.tools)} tools`),
            ),
          ),
        );
  return panel(
    "Upstreams",
    { id: "health" },
    from(sources.upstreams, ({ upstreams }) => rows(upstreams), { hurry: () => act.hurry("upstreams") }),
  );
}
