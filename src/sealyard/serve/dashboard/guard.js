// What is kept private, what was refused, who was asked, and the end of the audit log.

import { approvals } from "./approvals.js";
import { el } from "./dom.js";
import { count, plain, seconds } from "./format.js";
import { bars, empty, facts, figure, from, panel, table, time } from "./parts.js";
import { sources } from "./sources.js";

const COLUMNS = [
  { label: "No.", right: true },
  { label: "Time" },
  { label: "What" },
  { label: "Who" },
  { label: "Details", wide: true },
];
const DETAIL_CHARACTERS = 240;

/** Approvals and what came of earlier ones. */
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

/** Names in the configuration that fit nothing: such a rule decides nothing. */
export function unmatched() {
  const found = sources.policy.value?.unmatched ?? [];
  if (found.length === 0) return null;
  return panel(
    "Rules that fit nothing",
    { id: "unmatched", note: ["Correct them in sealyard.toml; ", el("code", {}, "sealyard policy check"), " finds them too."] },
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
    row("answer_p50_seconds", "answered within (p50)", seconds),
    row("policy_denied", "denied by policy"),
    row("review_refused", "code refused in review"),
  ]);
}

/** Private values by their type, and the audit log. */
export function privacyPage(state, act) {
  const again = { hurry: () => act.hurry("report") };
  return [
    el("h1", {}, "Privacy and audit"),
    el(
      "div",
      { class: "columns", key: "columns" },
      panel(
        "Hidden values by type",
        { id: "hidden" },
        from(
          sources.report,
          ({ security }) =>
            bars("security.hidden", security.hidden, { none: "No private value was seen in this time.", most: 20 }),
          again,
        ),
      ),
      panel(
        "In all",
        { id: "border" },
        from(sources.report, ({ security }) => border(security), again),
      ),
    ),
    panel(
      "Audit log",
      {
        id: "audit",
        note: ["The newest first; ", el("code", {}, "sealyard audit verify"), " proves that it is whole."],
      },
      from(sources.audit, (value) => audit(value, state, act), { hurry: () => act.hurry("audit") }),
    ),
  ];
}

function border(security) {
  return facts([
    ["hidden in all", figure("security.hidden_total", security.hidden_total, count)],
    [
      "withheld whole, because it could not be read",
      figure("security.hiding_failures", security.hiding_failures, count),
    ],
    ["shown to operators", figure("security.revealed", security.revealed, count)],
  ]);
}

function audit({ entries, next_cursor: cursor }, state, act) {
  if (entries.length === 0) return empty("The log has no entry for you.");
  const rows = entries.map((entry) => ({
    key: entry.number,
    cells: [String(entry.number), time(entry.at), el("code", {}, entry.kind), entry.principal, details(entry)],
  }));
  return [
    table("Audit log, the newest first", COLUMNS, rows),
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
