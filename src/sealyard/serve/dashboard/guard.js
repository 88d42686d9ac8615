// The Approvals page and the page for privacy and the audit log.

import { approvals } from "./approvals.js";
import { el } from "./dom.js";
import { count, plain, seconds } from "./format.js";
import { bars, empty, facts, figure, from, numeric, panel, short, table, time, wide } from "./parts.js";
import { sources } from "./sources.js";

const COLUMNS = [...numeric("#"), ...short("Time", "Event", "Principal"), ...wide("Details")];
const DETAIL_CHARACTERS = 240;

/** Pending approvals and past decisions. */
export function approvalsPage(state, act) {
  return [
    el("h1", {}, "Approvals"),
    approvals(state, act),
    unmatched(),
    panel(
      "Decisions",
      { id: "decisions" },
      from(sources.report, ({ security }) => decisions(security), { hurry: () => act.hurry("report") }),
    ),
  ];
}

/** Policy rules whose patterns match no tool, so they have no effect. */
export function unmatched() {
  const found = sources.policy.value?.unmatched ?? [];
  if (found.length === 0) return null;
  return panel(
    "Policy rules that match nothing",
    { id: "unmatched", note: ["Fix them in sealyard.toml; ", el("code", {}, "sealyard policy check"), " reports them too."] },
    el(
      "ul",
      { class: "unmatched" },
      found.map((each) => el("li", { key: `${each.at} ${each.pattern}` }, plain(each.message))),
    ),
  );
}

function decisions(security) {
  const row = (name, text, format = count) => [text, figure(`security.${name}`, security[name], format)];
  return facts([
    row("asked", "asked"),
    row("approved", "approved"),
    row("refused", "refused"),
    row("expired", "expired"),
    row("answer_p50_seconds", "time to answer (p50)", seconds),
    row("policy_denied", "denied by policy"),
    row("review_refused", "code rejected by review"),
  ]);
}

/** Concealed values by type, and the audit log. */
export function privacyPage(state, act) {
  const again = { hurry: () => act.hurry("report") };
  return [
    el("h1", {}, "Privacy and audit"),
    el(
      "div",
      { class: "columns", key: "columns" },
      panel(
        "Concealed values by type",
        { id: "hidden" },
        from(
          sources.report,
          ({ security }) =>
            bars("security.hidden", security.hidden, { none: "No private values in this time range.", most: 20 }),
          again,
        ),
      ),
      panel(
        "Totals",
        { id: "border" },
        from(sources.report, ({ security }) => border(security), again),
      ),
    ),
    panel(
      "Audit log",
      {
        id: "audit",
        note: ["Newest first; ", el("code", {}, "sealyard audit verify"), " checks its integrity."],
      },
      from(sources.audit, (value) => audit(value, state, act), { hurry: () => act.hurry("audit") }),
    ),
  ];
}

function border(security) {
  return facts([
    ["concealed", figure("security.hidden_total", security.hidden_total, count)],
    [
      "withheld because scanning failed",
      figure("security.hiding_failures", security.hiding_failures, count),
    ],
    ["revealed to operators", figure("security.revealed", security.revealed, count)],
  ]);
}

function audit({ entries, next_cursor: cursor }, state, act) {
  if (entries.length === 0) return empty("No entries visible to you.");
  const rows = entries.map((entry) => ({
    key: entry.number,
    cells: [String(entry.number), time(entry.at), el("code", {}, entry.kind), entry.principal, details(entry)],
  }));
  return [
    table("Audit log, newest first", COLUMNS, rows),
    cursor
      ? el(
          "p",
          { class: "older" },
          el(
            "button",
            { type: "button", disabled: state.busy.has("older audit"), onclick: () => act.older("audit") },
            "Older entries",
          ),
        )
      : null,
  ];
}

function details(entry) {
  const text = JSON.stringify(entry.body);
  const link = entry.execution_id
    ? el("a", { href: `#/runs/${encodeURIComponent(entry.execution_id)}` }, entry.execution_id)
    : null;
  return [
    link,
    " ",
    el(
      "span",
      { class: "dim code clip two", title: `SHA-256 ${entry.hash}` },
      text.length > DETAIL_CHARACTERS ? `${text.slice(0, DETAIL_CHARACTERS)}…` : text,
    ),
  ];
}
