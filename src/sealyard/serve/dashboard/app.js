// The application: sign-in, routing, polling and drawing.

import { actions } from "./actions.js";
import { alerts } from "./alerts.js";
import { get, readiness, Refusal, segment } from "./api.js";
import { skills, tools, upstreams } from "./catalog.js";
import { drawChart } from "./charts.js";
import { arriving, header, navigation, notices, signInForm, WINDOWS } from "./chrome.js";
import { skillDrawer, toolDrawer } from "./details.js";
import { render } from "./dom.js";
import { toolName } from "./format.js";
import { approvalsPage, privacyPage } from "./guard.js";
import { insights } from "./insights.js";
import { Live } from "./live.js";
import { runDrawer } from "./run.js";
import { CHARTS, overview } from "./overview.js";
import { runs } from "./runs.js";
import { sources } from "./sources.js";
import { usage } from "./usage.js";

// First, so that the key leaves the address bar before anything else runs.
const key = takeKey();

const PAGES = {
  "": { title: "Overview", view: overview, reads: ["report", "series", "upstreams", "policy"] },
  runs: { title: "Runs", view: runs, reads: ["runs"] },
  approvals: { title: "Approvals", view: approvalsPage, reads: ["report", "policy"] },
  tools: { title: "Tools", view: tools, reads: ["tools", "usage"] },
  skills: { title: "Skills", view: skills, reads: ["skills", "report"] },
  upstreams: { title: "Upstreams", view: upstreams, reads: ["upstreams", "profiles", "report"] },
  usage: { title: "Usage", view: usage, reads: ["usage", "report"] },
  learning: { title: "Learning", view: insights, reads: ["insights", "report"] },
  privacy: { title: "Privacy and audit", view: privacyPage, reads: ["report", "audit"] },
  alerts: { title: "Alerts", view: alerts, reads: [] },
};
const SHOWN = {
  runs: { read: readRun, view: runDrawer },
  tools: { read: (id) => get(`tools/${segment(id)}`), view: toolDrawer },
  skills: { read: readSkill, view: skillDrawer },
};
const ALWAYS = ["approvals", "alerts"];
const AFTER = {
  started: ["runs"],
  ended: ["report", "series", "runs", "usage"],
  asked: ["approvals"],
  answered: ["approvals"],
};
const TICK_MS = 250;
const SETTLE_SECONDS = 1;
const ARRIVE_SECONDS = 3;
const SHOWN_SECONDS = 3;
const READY_SECONDS = 30;
const PAUSE_SECONDS = 30;
const CALLS_READ = 200;
const STEPS = { minute: 60, hour: 3600, day: 86_400 };
const LEAST_POINTS = 14;

const state = {
  me: null,
  page: "",
  shown: null,
  window: stored("window", WINDOWS, "24h"),
  theme: document.documentElement.dataset.theme ?? "system",
  filter: {},
  searches: {},
  busy: new Set(),
  wholeAsks: new Map(),
  revealed: new Map(),
  said: null,
  isSigningIn: false,
  gateError: null,
  lostAt: null,
  readiness: null,
  now: Date.now() / 1000,
  waiting: 0,
  firing: 0,
  live: new Live(onLive),
};
const act = actions(state, changed, arrive);
const $ = (id) => document.getElementById(id);
let isChanged = false;
let nextArrival = Infinity;
let nextLook = 0;
let pausing = 0;
let heard = new Set();

// Sign-in

/** Ask the gateway who is signed in, and reset the page if that changed. */
async function arrive() {
  nextArrival = Infinity;
  try {
    const me = await get("me");
    const isOther = state.me?.principal !== me.principal || state.me?.known_by !== me.known_by;
    state.me = me;
    if (!state.isSigningIn) state.gateError = null;
    if (isOther) {
      for (const source of Object.values(sources)) source.reset();
      state.live.runs.clear();
      state.revealed.clear(); // this person may have fewer rights
      heard = new Set();
    }
    if (isOther || state.live.state === "connecting" || state.live.state === "lost") state.live.open();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.status === 401) leave();
    else {
      if (state.me === null) state.gateError = error.message;
      nextArrival = Date.now() / 1000 + (error.retrySeconds ?? ARRIVE_SECONDS);
    }
  }
  changed();
}

/** Nobody is signed in: drop all data. */
function leave() {
  state.live.close();
  state.live.runs.clear();
  state.revealed.clear();
  for (const source of Object.values(sources)) source.reset();
  Object.assign(state, { me: null, isSigningIn: true, shown: null });
  if ($("drawer").open) $("drawer").close();
}

// Polling

function onLive(kind, event) {
  if (state.live.state === "live") state.lostAt = null;
  else if (state.live.state === "lost" && state.lostAt === null) {
    state.lostAt = Date.now() / 1000;
    nextArrival = Math.min(nextArrival, state.lostAt + ARRIVE_SECONDS);
  }
  for (const name of AFTER[kind] ?? []) sources[name].hurry(kind === "ended" ? SETTLE_SECONDS : 0);
  if (kind === "ended" && event.execution_id === state.shown?.id) state.shown.due = 0;
  changed();
}

function tick() {
  const now = Date.now() / 1000;
  if (now >= nextArrival) arrive();
  if (state.me === null || state.busy.has("login")) return; // the signed-in user is about to change
  if (now >= nextLook) look();
  const reads = document.hidden ? ALWAYS : [...PAGES[state.page].reads, ...ALWAYS];
  for (const name of reads) {
    const source = sources[name];
    if (!source.isAsking && now >= source.due) source.ask(state).then(() => answered(source));
  }
  if (state.shown !== null && now >= state.shown.due) readShown(state.shown);
  if (isMoving()) changed();
}

/** Check whether the gateway is ready to run code. */
async function look() {
  nextLook = Infinity;
  try {
    state.readiness = await readiness();
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    state.readiness = null; // the event stream reports a lost gateway
  }
  nextLook = Date.now() / 1000 + (state.readiness?.ready === false ? SETTLE_SECONDS : READY_SECONDS);
  changed();
}

function answered(source) {
  if (source.error?.status === 401) arrive();
  if (source === sources.approvals) speak();
  changed();
}

/** True if a timer on the page is running. */
function isMoving() {
  return state.waiting > 0 || [...state.live.runs.values()].some((run) => run.endedAt === null);
}

/** Announce each new approval once to screen readers. */
function speak() {
  const fresh = (sources.approvals.value?.approvals ?? []).filter((ask) => !heard.has(ask.id));
  for (const ask of fresh) heard.add(ask.id);
  if (fresh.length > 0)
    $("spoken").textContent = `Waiting for approval: ${fresh.map((ask) => toolName(ask.tool)).join(", ")}`;
}

async function readShown(shown) {
  shown.due = Infinity;
  try {
    Object.assign(shown, { value: await SHOWN[shown.kind].read(shown.id), error: null });
    if (shown.value.status === "running") shown.due = Date.now() / 1000 + SHOWN_SECONDS;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (shown.value === null) shown.error = error;
    if (error.status !== 404) shown.due = Date.now() / 1000 + SHOWN_SECONDS;
  }
  changed();
}

async function readRun(id) {
  const place = `executions/${segment(id)}`;
  const [run, { calls }] = await Promise.all([get(place), get(`${place}/calls`, { limit: CALLS_READ })]);
  return { ...run, made: calls };
}

function readSkill(id) {
  const [namespace, name] = id.split("/");
  return get(`skills/${segment(name ?? "")}`, { namespace });
}

// Routing

/** Remove the key from the address, so that it does not stay in the history. */
function takeKey() {
  const match = /^#key=(.+)$/.exec(location.hash);
  if (match !== null) history.replaceState(null, "", location.pathname + location.search);
  return match === null ? null : decoded(match[1]);
}

function moved() {
  const given = takeKey();
  if (given !== null) act.enter(given);
  route();
}

function route() {
  const match = /^#\/([a-z]*)(?:\/(.+))?$/.exec(location.hash);
  const [name, id] = match === null ? ["", undefined] : [match[1], match[2]];
  const isShown = id !== undefined && Object.hasOwn(SHOWN, name);
  const page = isShown && state.arrived ? state.page : Object.hasOwn(PAGES, name) ? name : "";
  const isNew = state.arrived && page !== state.page;
  Object.assign(state, { page, arrived: true });
  state.shown = isShown
    ? { kind: name, id: id.split("/").map(decoded).join("/"), value: null, error: null, due: 0 }
    : null;
  draw();
  if (isNew) {
    scrollTo(0, 0);
    $("main").focus({ preventScroll: true });
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function stored(name, options, otherwise) {
  try {
    const value = localStorage.getItem(`sealyard.${name}`);
    return options.includes(value) ? value : otherwise;
  } catch {
    return otherwise;
  }
}

// Drawing

function changed() {
  if (isChanged) return;
  isChanged = true;
  requestAnimationFrame(draw);
}

function draw() {
  isChanged = false;
  state.now = Date.now() / 1000;
  state.waiting =
    sources.approvals.value?.approvals.length ??
    [...state.live.runs.values()].reduce((sum, run) => sum + run.asks.size, 0);
  state.firing = (sources.alerts.value?.alerts ?? []).filter((alert) => alert.state === "firing").length;
  const { title, view } = PAGES[state.page];
  const isInside = state.me !== null && !state.isSigningIn;
  document.title = `${state.waiting > 0 ? `(${state.waiting}) ` : ""}${isInside ? `${title} · ` : ""}sealyard`;
  document.body.classList.toggle("is-stale", isInside && state.live.state === "lost");
  render($("top"), header(state, act));
  render($("nav"), isInside ? navigation(state, PAGES) : null);
  render($("notice"), notices(state, act));
  const gate = state.isSigningIn ? signInForm(state, act) : arriving(state, act);
  render($("main"), isInside ? view(state, act) : gate);
  drawCharts();
  drawDrawer();
}

function drawCharts() {
  const { value } = sources.series;
  if (value === null) return;
  for (const spec of CHARTS) {
    const host = document.querySelector(`[data-chart="${spec.id}"]`);
    if (host !== null) drawChart(host, spec, pointsOf(value), STEPS[value.step]);
  }
}

/** The points to draw; for all time they start at the first activity. */
function pointsOf(value) {
  if (value.shown === undefined) {
    const first = value.window === "all" ? value.points.findIndex((point) => point.executions + point.searches > 0) : 0;
    value.shown =
      first === -1
        ? value.points.slice(-LEAST_POINTS)
        : value.points.slice(Math.max(0, Math.min(first, value.points.length - LEAST_POINTS)));
  }
  return value.shown;
}

function drawDrawer() {
  const drawer = $("drawer");
  if (state.shown === null) {
    if (drawer.open) drawer.close();
    return;
  }
  render(drawer, SHOWN[state.shown.kind].view(state.shown, state, act));
  if (!drawer.open) {
    drawer.showModal();
    drawer.scrollTop = 0;
  }
}

// Start

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
$("drawer").addEventListener("close", () => {
  if (state.shown !== null) act.closeDrawer();
});
$("drawer").addEventListener("click", (event) => {
  if (event.target === $("drawer")) act.closeDrawer();
});
document.addEventListener("visibilitychange", () => {
  // Browsers limit the connections to one host: leave them to visible tabs.
  clearTimeout(pausing);
  if (document.hidden) pausing = setTimeout(() => state.live.pause(), PAUSE_SECONDS * 1000);
  else if (state.live.state === "paused") state.live.open();
  tick();
});
addEventListener("hashchange", moved);
setInterval(tick, TICK_MS);
route();
if (key === null) arrive();
else act.enter(key);
