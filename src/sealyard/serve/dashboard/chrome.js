// The frame of every page: header, navigation, notices and the sign-in form.

import { el, svg } from "./dom.js";
import { count } from "./format.js";
import { time } from "./parts.js";

export const WINDOWS = ["1h", "24h", "7d", "30d", "all"];
const THEMES = ["system", "light", "dark"];
const LINKS = {
  live: ["ok", "live"],
  connecting: ["warn", "connecting"],
  lost: ["bad", "disconnected"],
  paused: ["warn", "paused"],
};

/** The header. */
export function header(state, act) {
  const isReady = state.readiness?.ready !== false;
  const [tone, text] = state.live.state === "live" && !isReady ? ["warn", "not ready"] : LINKS[state.live.state];
  return [
    el("p", { class: "brand", title: state.me === null ? null : `Version ${state.me.version}` }, logo(), "sealyard"),
    state.me === null
      ? null
      : el(
          "p",
          { class: `link is-${tone}`, role: "status", "data-link": state.live.state },
          el("span", { class: "dot" }),
          text,
        ),
    state.me === null ? null : choice("Time range", "window", WINDOWS, state.window, act.window),
    choice("Theme", "theme", THEMES, state.theme, act.theme),
    state.me === null ? null : who(state, act),
  ];
}

function logo() {
  return svg(
    "svg",
    { viewBox: "0 0 32 32", width: 20, height: 20, "aria-hidden": "true", class: "logo" },
    svg("rect", { width: 32, height: 32, rx: 7 }),
    svg("path", { d: "M7 9.5h18M16 9.5v14" }),
    svg("circle", { cx: 8.5, cy: 21.5, r: 2.4 }),
    svg("circle", { cx: 23.5, cy: 21.5, r: 2.4 }),
  );
}

/** A segmented control made of radio buttons, so that arrow keys work. */
function choice(label, name, options, chosen, onChoose) {
  return el(
    "fieldset",
    { class: "choice", key: name },
    el("legend", { class: "unseen" }, label),
    options.map((option) =>
      el(
        "label",
        { key: option },
        el("input", {
          type: "radio",
          name,
          value: option,
          checked: option === chosen,
          onchange: () => onChoose(option),
        }),
        el("span", {}, option),
      ),
    ),
  );
}

function who(state, act) {
  const rights = ["observe", "approve", "reveal"].filter((right) => state.me[right]);
  const isSigned = state.me.known_by === "login";
  return el(
    "p",
    { class: "who" },
    el("span", { title: rights.length ? `Permissions: ${rights.join(", ")}` : "Sees only its own runs" }, state.me.principal),
    el(
      "button",
      { type: "button", class: "small", onclick: isSigned ? act.signOut : act.signIn },
      isSigned ? "Sign out" : "Sign in",
    ),
  );
}

/** The links to all pages. */
export function navigation(state, pages) {
  const badge = { approvals: state.waiting, alerts: state.firing };
  return el(
    "ul",
    {},
    Object.entries(pages).map(([name, { title }]) =>
      el(
        "li",
        { key: name },
        el(
          "a",
          { href: `#/${name}`, "aria-current": state.page === name ? "page" : null },
          title,
          badge[name]
            ? el(
                "span",
                { class: name === "alerts" ? "badge is-bad" : "badge", "aria-label": `${badge[name]} open` },
                count(badge[name]),
              )
            : null,
        ),
      ),
    ),
  );
}

/** Notices above the page: the last result, a lost connection, pending approvals. */
export function notices(state, act) {
  const isLost = state.me !== null && state.live.state === "lost";
  const isElsewhere = !["", "approvals"].includes(state.page);
  return [
    state.said === null
      ? null
      : el(
          "p",
          { class: `notice is-${state.said.tone}`, key: "said" },
          state.said.text,
          el("button", { type: "button", class: "small", "aria-label": "Dismiss", onclick: act.hush }, "✕"),
        ),
    isLost
      ? el(
          "p",
          { class: "notice is-bad", key: "lost" },
          "No response from the gateway since ",
          time(state.lostAt),
          ". The data below may be out of date. ",
          el("button", { type: "button", class: "small", onclick: act.reconnect }, "Retry"),
        )
      : null,
    state.readiness?.ready === false && !isLost
      ? el("p", { class: "notice is-warn", key: "ready" }, "The gateway is not ready: ", state.readiness.reason)
      : null,
    state.waiting > 0 && isElsewhere
      ? el(
          "p",
          { class: "notice is-warn", key: "waiting" },
          `${count(state.waiting)} ${state.waiting === 1 ? "call is" : "calls are"} waiting for approval. `,
          el("a", { href: "#/approvals" }, "Review"),
        )
      : null,
  ];
}

/** The form for a token. */
export function signInForm(state, act) {
  return el(
    "section",
    { class: "gate panel", "aria-labelledby": "gate-title" },
    el("h1", { id: "gate-title" }, "Sign in"),
    el(
      "p",
      {},
      "Open the address that ",
      el("code", {}, "sealyard serve --http"),
      " prints: it contains a key. Or enter your token.",
    ),
    el(
      "form",
      { method: "post", onsubmit: (event) => (event.preventDefault(), act.login(event.currentTarget)) },
      el("input", { type: "text", name: "username", autocomplete: "username", value: "sealyard", hidden: true }),
      el("label", { for: "token" }, "Token"),
      el("input", {
        id: "token",
        name: "token",
        type: "password",
        autocomplete: "current-password",
        spellcheck: "false",
        required: true,
        maxlength: "4096",
      }),
      el("button", { type: "submit", class: "primary", disabled: state.busy.has("login") }, "Sign in"),
      state.me === null ? null : el("button", { type: "button", onclick: act.stay }, "Back"),
    ),
    state.gateError === null ? null : el("p", { class: "error", role: "alert" }, state.gateError),
  );
}

/** Shown until the gateway says who is signed in. */
export function arriving(state, act) {
  if (state.gateError === null) return el("p", { class: "empty", role: "status" }, "Connecting…");
  return el(
    "section",
    { class: "gate panel" },
    el("h1", {}, "No response from the gateway"),
    el("p", {}, state.gateError),
    el("p", { class: "dim" }, "This page retries automatically."),
    el("button", { type: "button", onclick: act.reconnect }, "Retry"),
  );
}
