// The Alerts page: alerts, silences and the buttons to manage them.

import { el } from "./dom.js";
import { words } from "./format.js";
import { empty, from, panel, status, time } from "./parts.js";
import { sources } from "./sources.js";

const SILENCES = [
  [3600, "1 h"],
  [8 * 3600, "8 h"],
  [24 * 3600, "24 h"],
];
const ORDER = ["firing", "pending", "resolved"];

/** Alerts that fire and are not silenced. */
export function loud(all) {
  return all.filter((alert) => alert.state === "firing" && !alert.silenced);
}

/** The whole page. */
export function alerts(state, act) {
  return [
    el("h1", {}, "Alerts"),
    panel(
      "Alerts",
      { id: "alerts" },
      from(sources.alerts, (value) => list(value, state, act), { hurry: () => act.hurry("alerts") }),
    ),
    from(sources.alerts, ({ silences }) =>
      silences?.length
        ? panel(
            "Silences",
            { id: "silences" },
            el(
              "ul",
              { class: "plainlist" },
              silences.map((each) => silence(each, state, act)),
            ),
          )
        : null,
    ),
  ];
}

function list({ alerts: found }, state, act) {
  if (found.length === 0)
    return empty("No alerts.", "Configure rules in the [alerts] table of sealyard.toml.");
  const rank = (alert) => ORDER.indexOf(alert.state);
  const rows = [...found].sort((a, b) => rank(a) - rank(b) || b.changed_at - a.changed_at);
  return el(
    "ol",
    { class: "alerts" },
    rows.map((alert) => card(alert, state, act)),
  );
}

function card(alert, state, act) {
  const id = `${alert.rule} ${alert.subject}`;
  const isOpen = alert.state !== "resolved";
  return el(
    "li",
    { class: "alert", key: id, "data-alert": id, "data-state": alert.state },
    el(
      "div",
      { class: "line" },
      status(alert.state),
      el("h3", {}, alert.title, alert.subject ? el("code", {}, alert.subject) : null),
      alert.silenced ? el("span", { class: "chip" }, "silenced") : null,
      alert.undelivered ? el("span", { class: "chip is-warn" }, "webhook failed") : null,
      el("span", { class: "push dim" }, isOpen ? "since " : "", time(isOpen ? alert.since : alert.changed_at)),
    ),
    el("p", {}, alert.message),
    el(
      "p",
      { class: "dim small" },
      "rule ",
      el("code", {}, alert.rule),
      alert.severity === "critical" ? " · critical" : "",
    ),
    isOpen && state.me.approve ? answers(alert, id, state, act) : null,
  );
}

function answers(alert, id, state, act) {
  const isBusy = state.busy.has(id);
  return el(
    "div",
    { class: "answers", role: "group", "aria-label": `Actions for ${alert.title}` },
    el("label", { for: `reason-${id}`, class: "unseen" }, "Reason for the silence"),
    el("input", {
      id: `reason-${id}`,
      type: "text",
      class: "reason",
      maxlength: "500",
      autocomplete: "off",
      placeholder: "Reason (optional)",
    }),
    el("span", { class: "dim" }, "Silence for"),
    SILENCES.map(([wait, text]) =>
      el(
        "button",
        {
          type: "button",
          class: "small",
          "data-silence-for": String(wait),
          disabled: isBusy,
          onclick: () => act.silence(alert, wait),
        },
        text,
      ),
    ),
    el(
      "button",
      { type: "button", class: "small", "data-action": "resolve", disabled: isBusy, onclick: () => act.resolve(alert) },
      "Resolve",
    ),
  );
}

function silence(each, state, act) {
  return el(
    "li",
    { key: each.rule, "data-silence": each.rule },
    el("b", {}, words(each.rule)),
    " until ",
    time(each.until),
    " by ",
    each.principal,
    each.reason ? `: ${each.reason} ` : " ",
    state.me.approve
      ? el(
          "button",
          {
            type: "button",
            class: "small",
            disabled: state.busy.has(each.rule),
            onclick: () => act.unsilence(each.rule),
          },
          "End silence",
        )
      : null,
  );
}
