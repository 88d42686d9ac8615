// What was learned from experience, from how much, how often it was right, and having it forgotten.

import { el } from "./dom.js";
import { count, percent, plain, toolName, words } from "./format.js";
import { bars, empty, facts, figure, from, panel, table, time } from "./parts.js";
import { sources } from "./sources.js";

const TITLES = {
  ranking: "What was found and used",
  chains: "What follows what",
  shapes: "What tools answer",
  failures: "What helped after a failure",
  risk: "What is likely to fail",
  skills: "Skills to use or to save",
  resources: "What runs need",
  domains: "Who works on what",
};
const PARTS = [
  { label: "Part", wide: true },
  { label: "Learned", right: true },
  { label: "From", right: true },
  { label: "Told", right: true },
  { label: "Right", right: true },
];
const ITEMS = [
  { label: "About" },
  { label: "What", wide: true },
  { label: "Evidence", right: true },
  { label: "Right", right: true },
  { label: "Last", right: true },
];
const LEVELS = [
  { label: "Told", wide: true },
  { label: "Runs", right: true },
  { label: "Failed", right: true },
  { label: "Share", right: true },
  { label: "Expected", right: true },
];
const CHANGES = [
  { label: "Kind of change", wide: true },
  { label: "Tried", right: true },
  { label: "Done", right: true },
  { label: "As predicted", right: true },
];
const SHARED = "what all share";

/** The whole page. */
export function insights(state, act) {
  const again = { hurry: () => act.hurry("insights") };
  const value = sources.insights.value;
  return [
    el("h1", {}, "Learning"),
    panel(
      "What was learned",
      { id: "learned" },
      from(sources.insights, (found) => [notice(found), partTable(found), about(found)], again),
    ),
    el(
      "div",
      { class: "columns", key: "columns" },
      panel("Risk that runs were told, and what became of them", { id: "calibration" }, from(sources.insights, levels)),
      panel(
        "What agents were told",
        { id: "told", note: "In the chosen time." },
        from(sources.report, ({ learning }) => told(learning), { hurry: () => act.hurry("report") }),
      ),
    ),
    value === null ? null : [itemPanels(value), migrations(value.migrations)],
    state.me.approve ? forgetting(state, act) : null,
  ];
}

/** A figure of what was learned: `path` says which, the title and `data-value` have every digit. */
function known(path, value, format) {
  const exact = value === null ? "" : String(value);
  return el("span", { class: "figure", "data-insight": path, "data-value": exact, title: exact }, format(value));
}

function notice(value) {
  if (!value.enabled)
    return el("p", { class: "stale" }, "Learning is switched off by the configuration: nothing is learned or told.");
  return value.is_ready ? null : el("p", { class: "stale" }, "The journal is still being read.");
}

function partTable({ parts }) {
  const rows = parts.map((part, place) => ({
    key: part.part,
    cells: [
      TITLES[part.part] ?? words(part.part),
      known(`parts.${place}.learned`, part.learned, count),
      known(`parts.${place}.evidence`, part.evidence, count),
      known(`parts.${place}.told`, part.told, count),
      known(`parts.${place}.accuracy`, part.accuracy, percent),
    ],
  }));
  return table("What was learned, by part", PARTS, rows);
}

function about(value) {
  const faults = Object.entries(value.faults);
  return facts([
    ["learned from", [known("facts", value.facts, count), " facts"]],
    ["shared by", value.scope === "shared" ? "all principals" : `each ${value.scope}`],
    ["counts half after", `${value.half_life_days} days`],
    value.partitions.length > 1 ? ["apart", value.partitions.map((name) => plain(name || SHARED)).join(", ")] : null,
    faults.length > 0 ? ["failed", faults.map(([part, times]) => `${part} ${times}`).join(", ")] : null,
    ...value.forgotten.map((each) => [
      "forgotten",
      [each.what === "all" ? "everything " : `${each.what} ${plain(each.subject)} `, time(each.at)],
    ]),
  ]);
}

function levels({ risk }) {
  if (risk.every((each) => each.told === 0)) return empty("No run that was told its risk is over yet.");
  const rows = risk.map((each, place) => ({
    key: each.risk,
    cells: [
      words(each.risk),
      known(`risk.${place}.told`, each.told, count),
      known(`risk.${place}.failed`, each.failed, count),
      known(`risk.${place}.share`, each.share, percent),
      known(`risk.${place}.expected`, each.expected, percent),
    ],
  }));
  return table("Share of runs that failed, by the risk that they were told", LEVELS, rows);
}

function told(learning) {
  const row = (name, text, format = count) => [text, figure(`learning.${name}`, learning[name], format)];
  return [
    facts([
      row("assessed", "runs looked at"),
      row("refused", "not run for their risk"),
      row("asked", "asked about"),
      row("hints_total", "hints"),
      row("searches_changed", "searches reordered"),
      row("searches_changed_share", "of all searches", percent),
    ]),
    bars("learning.hints", learning.hints, { none: "No hint was given in this time." }),
    bars("learning.fitted", learning.fitted, { tone: "second", none: "No run had other limits than usual." }),
  ];
}

function itemPanels(value) {
  const some = value.parts.map((part) => [part.part, TITLES[part.part] ?? words(part.part), part.items]);
  return [
    ...some,
    ["worth", "What skills are worth", value.skills],
    ["conflicts", "Tools that do not answer what they declare", value.conflicts],
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
      item.told > 0 ? `${count(item.right)} of ${count(item.told)}` : "–",
      time(item.last_at),
    ],
  };
}

function migrations(past) {
  if (past.tried === 0) return null;
  const rows = past.changes.map((each) => ({
    key: each.change,
    cells: [
      plain(words(each.change || "not recorded")),
      count(each.migrations),
      count(each.migrated),
      count(each.right),
    ],
  }));
  return panel(
    "Migrations of skills, and whether they were as hard as predicted",
    { id: "migrations" },
    facts([
      ["tried", known("migrations.tried", past.tried, count)],
      ["done", known("migrations.done", past.done, count)],
      ["as predicted", known("migrations.accuracy", past.accuracy, percent)],
    ]),
    table("Migrations by the kind of change", CHANGES, rows),
  );
}

function forgetting(state, act) {
  return panel(
    "Forget",
    { id: "forget" },
    el("p", { class: "dim" }, "What is forgotten stays in the journal, and is not learned from any more."),
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
