// Pending approvals, and the buttons that answer them.

import { el } from "./dom.js";
import { plain, seconds, whole } from "./format.js";
import { empty, from, panel, time, tool } from "./parts.js";
import { sources } from "./sources.js";

const ANSWERS = [
  ["once", "Allow once", "Allow this call once"],
  ["run", "Allow for this run", "Allow this tool until this run ends"],
  ["session", "Allow for this session", "Allow this tool for the rest of this session"],
  ["always", "Allow always…", "Always allow this tool with exactly these arguments"],
];
// A card is redrawn every second, so it shows only this much until someone asks for all of it.
const VALUE_CHARACTERS = 2_000;
const ARGUMENTS_SHOWN = 100;
const TOKEN = /__PII_[a-z][a-z0-9_]{0,39}?_[0-9a-f]{12}__/i;

/** The panel of pending approvals. */
export function approvals(state, act) {
  const body = state.me?.approve
    ? from(sources.approvals, ({ approvals: asks }) => list(asks, state, act), { hurry: () => act.hurry("approvals") })
    : closed(state, act);
  return panel("Pending approvals", { id: "approvals", note: "Agents cannot answer these." }, body);
}

function list(asks, state, act) {
  for (const id of state.revealed.keys()) {
    if (!asks.some((ask) => ask.id === id)) state.revealed.delete(id);
  }
  if (asks.length === 0)
    return empty("No pending approvals.", "Calls that a policy rule holds for approval appear here.");
  return el(
    "ol",
    { class: "asks" },
    asks.map((ask) => card(ask, state, act)),
  );
}

function closed(state, act) {
  const text = state.waiting > 0 ? `${state.waiting} waiting. ` : "";
  return el(
    "div",
    { class: "empty" },
    `${text}You are signed in as ${state.me?.principal ?? "nobody"}, which cannot approve calls. `,
    el(
      "span",
      {},
      "Open the address with the key that ",
      el("code", {}, "sealyard serve --http"),
      " prints, or sign in with a token that has ",
      el("code", {}, "approve = true"),
      ".",
    ),
    el("p", {}, el("button", { type: "button", onclick: act.signIn }, "Sign in")),
  );
}

function card(ask, state, act) {
  const left = ask.expires_at - state.now;
  const isBusy = state.busy.has(ask.id);
  const othersAnswer = whoElse(ask, state.me);
  return el(
    "li",
    { class: "ask", key: ask.id, "data-ask": ask.id },
    el(
      "div",
      { class: "line" },
      el("h3", {}, tool(ask.tool)),
      el(
        "span",
        { class: left < 30 ? "chip is-warn" : "chip" },
        left > 0 ? `expires in ${seconds(Math.ceil(left))}` : "expired",
      ),
    ),
    el("p", { class: "why" }, plain(ask.reason || ask.rule)),
    args(state.wholeAsks.get(ask.id) ?? ask, () => act.showWhole(ask)),
    privateValues(state.wholeAsks.get(ask.id) ?? ask, state, act),
    el(
      "p",
      { class: "dim small" },
      "Requested by ",
      el("b", {}, plain(ask.principal)),
      " in session ",
      el("b", {}, plain(ask.session)),
      isAboutRun(ask) ? ", run " : `, call ${ask.number} of run `,
      el("a", { href: `#/runs/${encodeURIComponent(ask.execution_id)}` }, ask.execution_id),
      " at ",
      time(ask.asked_at),
      ", rule ",
      el("code", {}, plain(ask.rule)),
    ),
    othersAnswer === null ? answers(ask, isBusy, act) : el("p", { class: "dim" }, othersAnswer),
  );
}

/** Who answers a request that this principal may not answer; null if it may. */
function whoElse(ask, me) {
  if (!ask.channels.includes("operator")) return "Only the person at the client may answer this one.";
  return ask.principal === me.principal && me.principal !== "operator"
    ? "Another principal must answer this one: an agent may have your token."
    : null;
}

/** The field for a reason, and the buttons. */
function answers(ask, isBusy, act) {
  const id = `reason-${ask.id}`;
  return [
    el("label", { for: id, class: "unseen" }, "Reason, shown to the agent"),
    el("input", {
      id,
      type: "text",
      class: "reason",
      name: "reason",
      maxlength: "1000",
      autocomplete: "off",
      placeholder: "Reason (optional, shown to the agent)",
    }),
    el(
      "div",
      { class: "answers", role: "group", "aria-label": `Decide about ${ask.tool}` },
      ANSWERS.filter(([decision]) => decision === "once" || !isAboutRun(ask)).map(([decision, text, title]) =>
        el(
          "button",
          {
            type: "button",
            class: decision === "once" ? "primary" : null,
            "data-decision": decision,
            title,
            disabled: isBusy,
            onclick: () => act.answer(ask, decision),
          },
          text,
        ),
      ),
      el(
        "button",
        {
          type: "button",
          class: "danger",
          "data-decision": "refuse",
          title: isAboutRun(ask) ? "Do not run this code" : "Refuse this call",
          disabled: isBusy,
          onclick: () => act.answer(ask, "refuse"),
        },
        "Refuse",
      ),
    ),
  ];
}

/** The values behind the tokens of a call, each on its own line, or the way to them. */
function privateValues(ask, state, act) {
  const values = state.revealed.get(ask.id);
  if (values !== undefined) {
    const rows = Object.entries(values);
    if (rows.length === 0) return el("p", { class: "dim small" }, "No token of this session is in it.");
    return el(
      "dl",
      { class: "args", tabindex: "0", "aria-label": "Private values" },
      rows.map(([token, value]) => el("div", {}, el("dt", {}, token), el("dd", {}, plain(JSON.stringify(value))))),
    );
  }
  if (!TOKEN.test(JSON.stringify(ask.arguments))) return null;
  if (state.me.reveal) {
    const reveal = { type: "button", "data-action": "reveal", onclick: () => act.reveal(ask) };
    return el("p", {}, el("button", reveal, "Show private values"));
  }
  return el(
    "p",
    { class: "dim small" },
    "Tokens stand for private values. ",
    el("code", {}, "sealyard approvals --reveal"),
    " shows them, and so does this page to whoever has ",
    el("code", {}, "reveal = true"),
    ".",
  );
}

/** True if the approval is for a whole run that has not started, not for one of its calls. */
function isAboutRun(ask) {
  return ask.number === 0;
}

/** Arguments by name. A truncated one states its length, and `showWhole` loads the rest. */
export function args({ arguments: value, cut = {}, isWhole = false }, showWhole) {
  const isObject = value !== null && typeof value === "object" && !Array.isArray(value);
  const rows = isObject ? Object.entries(value) : [["(all)", value]];
  if (rows.length === 0) return el("p", { class: "dim small" }, "No arguments.");
  const shown = isWhole ? rows : rows.slice(0, ARGUMENTS_SHOWN);
  const texts = shown.map(([name, each]) => [name, JSON.stringify(each), cut[name] ?? 0]);
  const isCut = ([, text, length]) => !isWhole && (length > 0 || text.length > VALUE_CHARACTERS);
  const leftOut = rows.length - shown.length + (cut["…"] ?? 0);
  return [
    el(
      "dl",
      { class: "args", tabindex: "0", "aria-label": "Arguments" },
      texts.map((each) => el("div", {}, el("dt", {}, plain(each[0])), el("dd", {}, argument(each, isCut(each))))),
      leftOut > 0 ? el("div", {}, el("dt", {}, "…"), el("dd", {}, `${whole(leftOut)} more arguments`)) : null,
    ),
    leftOut > 0 || texts.some(isCut)
      ? el("p", {}, el("button", { type: "button", "data-action": "whole", onclick: showWhole }, "Show all"))
      : null,
  ];
}

function argument([, text, length], isCut) {
  if (!isCut) return plain(text);
  return `${plain(text.slice(0, VALUE_CHARACTERS))}… (${whole(Math.max(length, text.length))} characters)`;
}
