// Components shared by several pages.

import { el, svg } from "./dom.js";
import { count, exactTime, moment, percent, plain, toolName, words } from "./format.js";

const TONES = {
  ok: "ok",
  ready: "ok",
  running: "live",
  starting: "live",
  stopped: "quiet",
  failed: "bad",
  broken: "bad",
  firing: "bad",
  lost: "bad",
  timeout: "warn",
  limit: "warn",
  backing_off: "warn",
  cancelled: "quiet",
  pending: "warn",
  resolved: "quiet",
  draft: "warn",
  quarantined: "bad",
  active: "ok",
};
const SHAPES = {
  ok: "M2 5.2 4.2 7.4 8.2 2.8",
  bad: "M2.4 2.4 7.6 7.6 M7.6 2.4 2.4 7.6",
  warn: "M5 1.6V5.6 M5 8.2V8.3",
};

/** A figure from the report at `path`; its title and `data-value` hold every digit. */
export function figure(path, value, format, options = {}) {
  const exact = value === null || value === undefined ? "" : String(value);
  return el(
    "span",
    { class: "figure", "data-metric": path || null, "data-value": exact, title: options.title ?? exact },
    format(value),
  );
}

/** A status label with an icon, readable without colour. */
export function status(state, text = words(state)) {
  const tone = TONES[state] ?? "quiet";
  return el("span", { class: `status is-${tone}` }, mark(tone), text);
}

function mark(tone) {
  const shape = SHAPES[tone];
  const inner = shape === undefined ? svg("circle", { cx: 5, cy: 5, r: 2.6 }) : svg("path", { d: shape });
  return svg("svg", { viewBox: "0 0 10 10", width: 10, height: 10, "aria-hidden": "true" }, inner);
}

/** A moment, with the exact time in its title. */
export function time(at) {
  return el("span", { class: "time", title: exactTime(at) }, moment(at));
}

/** A tool by its short name. */
export function tool(full) {
  return el("code", { class: "tool", title: plain(full) }, plain(toolName(full)));
}

/** A bar filled to a share of its width. `filled` may be null. */
export function meter(filled, tone = "accent") {
  const wide = Math.max(0, Math.min(1, filled ?? 0)) * 100;
  return svg(
    "svg",
    { class: `meter tone-${tone}`, "aria-hidden": "true" },
    svg("rect", { class: "whole", width: "100%", height: "100%", rx: 2 }),
    svg("rect", { width: `${wide.toFixed(2)}%`, height: "100%", rx: 2 }),
  );
}

/** Counts by name as bars, the largest first. */
export function bars(path, counts, { tone = "accent", label = words, none, most = 12 } = {}) {
  const rows = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  if (rows.length === 0) return empty(none);
  const top = rows[0][1];
  const rest = rows.slice(most).reduce((sum, row) => sum + row[1], 0);
  return el(
    "ul",
    { class: "bars" },
    rows
      .slice(0, most)
      .map(([name, value]) =>
        el(
          "li",
          { key: name },
          el("span", { class: "name", title: name }, label(name)),
          meter(top ? value / top : 0, tone),
          figure(path && `${path}.${name}`, value, count),
        ),
      ),
    rest > 0
      ? el(
          "li",
          { class: "rest" },
          el("span", { class: "name" }, `${rows.length - most} more`),
          el("span", {}),
          el("span", { class: "figure" }, count(rest)),
        )
      : null,
  );
}

/** Names and values in two columns. */
export function facts(rows) {
  return el(
    "dl",
    { class: "facts" },
    rows.filter((row) => row !== null).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}

/** A section of a page with a title. */
export function panel(title, { id = null, note = null, actions = null, wide = false } = {}, ...children) {
  const heading = id === null ? null : `${id}-title`;
  return el(
    "section",
    { class: wide ? "panel wide" : "panel", id, key: id ?? title, "aria-labelledby": heading },
    el(
      "div",
      { class: "head" },
      el("h2", { id: heading }, title),
      note === null ? null : el("p", { class: "note" }, note),
      actions,
    ),
    children,
  );
}

/** Columns of a table with short texts. */
export const short = (...labels) => labels.map((label) => ({ label }));

/** Columns with long texts. */
export const wide = (...labels) => labels.map((label) => ({ label, wide: true }));

/** Columns with figures, aligned to the right. */
export const numeric = (...labels) => labels.map((label) => ({ label, right: true }));

/** A table that becomes a list of cards on narrow screens. Its columns are those above. */
export function table(caption, columns, rows) {
  return el(
    "table",
    { class: "grid" },
    el("caption", { class: "unseen" }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map(({ label, right }) => el("th", { scope: "col", class: right ? "right" : null }, label)),
      ),
    ),
    el(
      "tbody",
      {},
      rows.map(({ key, cells, tone }) =>
        el(
          "tr",
          { key, class: tone ?? null },
          cells.map((cell, index) =>
            el(
              "td",
              {
                "data-label": columns[index].label,
                class: columns[index].right ? "right" : columns[index].wide ? "wide" : null,
              },
              cell,
            ),
          ),
        ),
      ),
    ),
  );
}

/** The text of an empty panel. */
export function empty(text, hint = null) {
  return el("p", { class: "empty" }, text, hint === null ? null : el("span", {}, hint));
}

/** The view of a source's value, or the reason why it is missing. */
export function from(source, view, { hurry } = {}) {
  if (source.value !== null) return [source.error === null ? null : stale(source), view(source.value)];
  if (source.error === null)
    return el(
      "div",
      { class: "loading", role: "status" },
      el("span", { class: "unseen" }, "Loading"),
      [70, 45, 60].map((wide) =>
        svg("svg", { class: "bone", "aria-hidden": "true" }, svg("rect", { width: `${wide}%`, height: "100%", rx: 3 })),
      ),
    );
  return refusal(source.error, hurry);
}

/** The error shown in place of a view. */
export function refusal(error, hurry = null) {
  if (error.status === 403) return el("p", { class: "empty" }, "You do not have access. ", el("span", {}, error.message));
  return el(
    "div",
    { class: "failed", role: "alert" },
    el(
      "p",
      {},
      error.message,
      error.requestId === "" ? null : el("span", { class: "dim" }, ` Request ${error.requestId}.`),
    ),
    hurry === null || hurry === undefined ? null : el("button", { type: "button", onclick: hurry }, "Retry"),
  );
}

function stale(source) {
  return el(
    "p",
    { class: "stale", title: source.error.message },
    "As of ",
    time(source.at),
    ": ",
    source.error.message,
  );
}

/** The drawer: a title, a close button, and the view of the value once it is loaded. */
export function drawer(title, shown, act, view) {
  return [
    el(
      "div",
      { class: "drawer-head" },
      el("h2", { id: "drawer-title" }, title),
      el("button", { type: "button", class: "close", "aria-label": "Close", onclick: act.closeDrawer }, "✕"),
    ),
    shown.error !== null ? refusal(shown.error) : shown.value === null ? empty("Loading…") : view(shown.value),
  ];
}

/** A section of the drawer with a title. */
export function part(title, ...children) {
  return el("section", { class: "part", key: title }, el("h3", {}, title), children);
}

/** Indented JSON, or text unchanged. */
export function json(value) {
  return el(
    "pre",
    { class: "data", tabindex: "0" },
    typeof value === "string" ? value : JSON.stringify(value, null, 2),
  );
}

/** A ratio as a percentage. */
export function share(some, all, path = "") {
  return all ? figure(path, some / all, percent) : "–";
}
