// The Learning page: insights by part, their accuracy, and the form to forget them.

import { el } from "./dom.js";
import { count, percent, plain, toolName, words } from "./format.js";
import { bars, empty, facts, figure, from, numeric, panel, short, table, time, wide } from "./parts.js";
import { sources } from "./sources.js";

const TITLES = {
  ranking: "Search ranking",
  chains: "Tool chains",
  shapes: "Output shapes",
  failures: "Failure fixes",
  risk: "Risk",
  skills: "Skills",
  resources: "Limits",
};
const PARTS = [...wide("Part"), ...numeric("Insights", "Evidence", "Checked", "Accuracy")];
const ITEMS = [...short("Subject"), ...wide("Insight"), ...numeric("Evidence", "Correct", "Last seen")];
const LEVELS = [...wide("Risk level"), ...numeric("Runs", "Failed", "Failure rate", "Predicted")];
const SHARED = "shared";

/** The whole page. */
export function insights(state, act) {
  const again = { hurry: () => act.hurry("insights") };
  const value = sources.insights.value;
  return [
    el("h1", {}, "Learning"),
    panel(
      "Insights by part",
      { id: "learned" },
      from(sources.insights, (found) => [notice(found), partTable(found), about(found)], again),
    ),
    el(
      "div",
      { class: "columns", key: "columns" },
      panel("Risk calibration", { id: "calibration" }, from(sources.insights, levels)),
      panel(
        "Hints given to agents",
        { id: "hints", note: "In the selected time range." },
        from(sources.report, ({ learning }) => hints(learning), { hurry: () => act.hurry("report") }),
      ),
    ),
    value === null ? null : [itemPanels(value), migrations(value.migrations)],
    state.me.approve ? forgetting(state, act) : null,
  ];
}

/** A figure from the insights at `path`; its title and `data-value` hold every digit. */
function known(path, value, format) {
  const exact = value === null ? "" : String(value);
  return el("span", { class: "figure", "data-insight": path, "data-value": exact, title: exact }, format(value));
}

function notice(value) {
  if (!value.enabled)
    return el("p", { class: "stale" }, "Learning is off in the configuration.");
  return value.is_ready ? null : el("p", { class: "stale" }, "Still reading the journal.");
}

function partTable({ parts }) {
  const rows = parts.map((part, place) => ({
    key: part.part,
    cells: [
      TITLES[part.part] ?? words(part.part),
      known(`parts.${place}.learned`, part.learned, count),
      known(`parts.${place}.evidence`, part.evidence, count),
      known(`parts.${place}.checked`, part.checked, count),
      known(`parts.${place}.accuracy`, part.accuracy, percent),
    ],
  }));
  return table("Insights by part", PARTS, rows);
}

function about(value) {
  const faults = Object.entries(value.faults);
  return facts([
    ["learned from", [known("facts", value.facts, count), " facts"]],
    ["scope", value.scope === "shared" ? "all principals" : `each ${value.scope}`],
    ["evidence half-life", `${value.half_life_days} days`],
    value.partitions.length > 1 ? ["partitions", value.partitions.map((name) => plain(name || SHARED)).join(", ")] : null,
    faults.length > 0 ? ["faults", faults.map(([part, times]) => `${part} ${times}`).join(", ")] : null,
    ...value.forgotten.map((each) => [
      "forgotten",
      [each.what === "all" ? "everything " : `${each.what} ${plain(each.subject)} `, time(each.at)],
    ]),
  ]);
}

function levels({ risk }) {
  if (risk.every((each) => each.assessed === 0)) return empty("No assessed run has finished yet.");
  const rows = risk.map((each, place) => ({
    key: each.risk,
    cells: [
      words(each.risk),
      known(`risk.${place}.assessed`, each.assessed, count),
      known(`risk.${place}.failed`, each.failed, count),
      known(`risk.${place}.share`, each.share, percent),
      known(`risk.${place}.expected`, each.expected, percent),
    ],
  }));
  return table("Failure rate by predicted risk", LEVELS, rows);
}

function hints(learning) {
  const row = (name, text, format = count) => [text, figure(`learning.${name}`, learning[name], format)];
  return [
    facts([
      row("assessed", "runs assessed"),
      row("refused", "runs refused"),
      row("asked", "runs held for approval"),
      row("hints_total", "hints"),
      row("searches_changed", "searches reordered"),
      row("searches_changed_share", "share of searches", percent),
    ]),
    bars("learning.hints", learning.hints, { none: "No hints in this time range." }),
    bars("learning.fitted", learning.fitted, { tone: "second", none: "No limits adjusted in this time range." }),
  ];
}

function itemPanels(value) {
  const some = value.parts.map((part) => [part.part, TITLES[part.part] ?? words(part.part), part.items]);
  return [
    ...some,
    ["worth", "Skill value", value.skills],
    ["conflicts", "Output schema conflicts", value.conflicts],
  ]
    .filter(([, , items]) => items.length > 0)
    .map(([name, title, items]) => panel(title, { id: `learned-${name}` }, table(title, ITEMS, items.map(itemRow))));
}

function itemRow(item, place) {
  return {
    key: `${item.kind} ${item.subject} ${place}`,
    cells: [
      el("code", { title: plain(item.subject) }, plain(item.subject.split(" -> ").map(toolName).join(" → "))),
      plain(item.text),
      String(Math.round(item.evidence * 10) / 10),
      item.checked > 0 ? `${count(item.right)} of ${count(item.checked)}` : "–",
      time(item.last_at),
    ],
  };
}

function migrations(past) {
  if (past.tried === 0) return null;
  return panel(
    "Skill migrations",
    { id: "migrations" },
    facts([
      ["attempts", known("migrations.tried", past.tried, count)],
      ["migrated", known("migrations.done", past.done, count)],
      ["as predicted", known("migrations.accuracy", past.accuracy, percent)],
    ]),
  );
}

function forgetting(state, act) {
  return panel(
    "Forget",
    { id: "forget" },
    el("p", { class: "dim" }, "Forgetting removes insights. The journal keeps the runs, but sealyard no longer learns from them."),
    el(
      "form",
      {
        class: "answers",
        onsubmit: (event) => {
          event.preventDefault();
          act.forget(event.currentTarget);
        },
      },
      el("label", { for: "forget-subject" }, "Tool, principal or ALL"),
      el("input", {
        id: "forget-subject",
        name: "subject",
        type: "text",
        class: "reason",
        maxlength: "200",
        required: true,
        autocomplete: "off",
        spellcheck: "false",
      }),
      el("button", { type: "submit", class: "small", disabled: state.busy.has("forget") }, "Forget…"),
    ),
  );
}
