// Actions of a person. Each calls the gateway, reports the result and refreshes the page.

import { args } from "./approvals.js";
import { get, quiet, Refusal, segment, send } from "./api.js";
import { el, render } from "./dom.js";
import { plain, toolName } from "./format.js";
import { tool } from "./parts.js";
import { sources } from "./sources.js";

const SAID_SECONDS = 8;
const DONE = {
  once: "Allowed once",
  run: "Allowed for this run",
  session: "Allowed for this session",
  always: "Allowed always",
  refuse: "Refused",
};

/** The actions over `state`; `changed()` redraws the page and `arrive()` asks the gateway who is signed in. */
export function actions(state, changed, arrive) {
  function say(text, tone = "ok") {
    const said = { text, tone };
    state.said = said;
    changed();
    setTimeout(() => {
      if (state.said === said) act.hush();
    }, SAID_SECONDS * 1000);
  }

  /** Run `work` unless it is already running, and show a notice if the gateway refuses. */
  async function once(id, work) {
    if (state.busy.has(id)) return;
    state.busy.add(id);
    changed();
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      say(error.message, "bad");
      if (error.status === 401) await arrive();
    } finally {
      state.busy.delete(id);
      changed();
    }
  }

  const act = {
    hush() {
      state.said = null;
      changed();
    },
    hurry(name) {
      sources[name].hurry();
    },
    window(name) {
      state.window = name;
      store("window", name);
      for (const each of ["report", "series", "usage"]) sources[each].reset();
      changed();
    },
    theme(name) {
      state.theme = name;
      store("theme", name === "system" ? null : name);
      if (name === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = name;
      changed();
    },
    filter(form) {
      state.filter = Object.fromEntries(
        [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== ""),
      );
      sources.runs.reset();
      changed();
    },
    search(name, text) {
      state.searches[name] = text;
      changed();
    },
    older(name) {
      return once(`older ${name}`, () => sources[name].older(state));
    },
    cancel(id) {
      return once(id, async () => {
        await send("POST", `executions/${segment(id)}/cancel`);
        say(`Run ${id} is being cancelled.`);
        sources.runs.hurry();
      });
    },
    showWhole(ask) {
      return once(`whole ${ask.id}`, async () => {
        const whole = await get(`approvals/${segment(ask.id)}`);
        state.wholeAsks.set(ask.id, { ...whole, isWhole: true });
      });
    },
    reveal(ask) {
      return once(`reveal ${ask.id}`, async () => {
        const { values } = await send("POST", `approvals/${segment(ask.id)}/reveal`);
        state.revealed.set(ask.id, values);
      });
    },
    async answer(ask, decision) {
      const reason = document.getElementById(`reason-${ask.id}`)?.value.trim() ?? "";
      if (decision === "always") {
        await act.showWhole(ask); // show every argument before a permanent decision
        const whole = state.wholeAsks.get(ask.id);
        if (whole === undefined || !(await confirmAlways(whole))) return;
      }
      await once(ask.id, async () => {
        await send("POST", `approvals/${segment(ask.id)}`, { decision, reason });
        say(`${DONE[decision]}: ${plain(toolName(ask.tool))}`);
      });
      state.wholeAsks.delete(ask.id);
      state.revealed.delete(ask.id);
      sources.approvals.hurry();
    },
    async forget(form) {
      const subject = new FormData(form).get("subject").trim();
      if (subject === "" || !(await confirmForget(subject))) return;
      await once("forget", async () => {
        const { what, subject: name } = await send("POST", "learning/forget", { subject });
        say(what === "all" ? "Forgotten: everything" : `Forgotten: ${what} ${plain(name)}`);
        form.reset();
        sources.insights.hurry();
      });
    },
    signIn() {
      state.isSigningIn = true;
      state.gateError = null;
      changed();
      document.getElementById("token")?.focus();
    },
    stay() {
      state.isSigningIn = false;
      changed();
    },
    async signOut() {
      await once("login", async () => {
        await quiet(); // let pending requests finish as the signed-in user
        await send("POST", "logout");
        await arrive();
      });
    },
    login(form) {
      return act.enter(new FormData(form).get("token"));
    },
    async enter(token) {
      state.busy.add("login");
      changed();
      try {
        await send("POST", "login", { token });
        state.isSigningIn = false;
        state.gateError = null;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        state.isSigningIn = true;
        state.gateError = error.message;
      }
      state.busy.delete("login");
      await arrive();
    },
    reconnect() {
      return arrive();
    },
    closeDrawer() {
      location.hash = `#/${state.page}`;
    },
  };
  return act;
}

/** Ask for confirmation of a permanent approval. */
function confirmAlways(ask) {
  return confirmed("Always allow this?", "Always allow", [
    el(
      "p",
      {},
      tool(ask.tool),
      " with exactly these arguments, for ",
      el("b", {}, plain(ask.principal)),
      " in every session from now on:",
    ),
    args({ ...ask, isWhole: true }),
    el("p", { class: "dim" }, el("code", {}, "sealyard approvals"), " can revoke it."),
  ]);
}

/** Ask for confirmation before learned data is dropped. */
function confirmForget(subject) {
  const what = subject === "ALL" ? "everything" : plain(subject);
  return confirmed("Forget this?", "Forget", [
    el("p", {}, "sealyard stops using what it learned about ", el("b", {}, what), ". This cannot be undone."),
    el("p", { class: "dim" }, "The journal keeps the past runs, and learning goes on with new ones."),
  ]);
}

/** Show a dialog; resolves to true if the person confirms. */
function confirmed(question, yes, explanation) {
  const dialog = document.getElementById("confirm");
  const close = (value) => () => dialog.close(value);
  render(
    dialog,
    el("h2", { id: "confirm-title" }, question),
    explanation,
    el(
      "div",
      { class: "answers" },
      el("button", { type: "button", onclick: close("no") }, "Cancel"),
      el("button", { type: "button", class: "primary", "data-decision": "confirm", onclick: close("yes") }, yes),
    ),
  );
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}

/** Keep a preference in local storage. */
function store(name, value) {
  try {
    if (value === null) localStorage.removeItem(`sealyard.${name}`);
    else localStorage.setItem(`sealyard.${name}`, value);
  } catch {
    // Storage may be blocked; the preference then lasts until the page is closed.
  }
}
