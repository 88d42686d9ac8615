// The Alerts page: every alert, firing ones first.

import { el } from "./dom.js";
import { empty, from, panel, status, time } from "./parts.js";
import { sources } from "./sources.js";

const ORDER = ["firing", "pending", "resolved"];

/** The whole page. */
export function alerts(state, act) {
  return [
    el("h1", {}, "Alerts"),
    panel("Alerts", { id: "alerts" }, from(sources.alerts, list, { hurry: () => act.hurry("alerts") })),
  ];
}

function list({ alerts: found }) {
  if (found.length === 0)
    return empty("No alerts.", "Configure rules in the [alerts] table of sealyard.toml.");
  const rank = (alert) => ORDER.indexOf(alert.state);
  const rows = [...found].sort((a, b) => rank(a) - rank(b) || b.changed_at - a.changed_at);
  return el("ol", { class: "alerts" }, rows.map(card));
}

function card(alert) {
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
      alert.undelivered ? el("span", { class: "chip is-warn" }, "not delivered") : null,
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
  );
}
