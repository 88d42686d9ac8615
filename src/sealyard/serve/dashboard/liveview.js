// Running executions with their calls and output, and a button to cancel each.

import { el } from "./dom.js";
import { count, seconds } from "./format.js";
import { empty, panel, status, time } from "./parts.js";
import { waterfall } from "./waterfall.js";

const CALLS_SHOWN = 8;
const OUTPUT_SHOWN = 4_000;

/** The panel of running and recently finished executions. */
export function liveRuns(state, act) {
  const runs = state.live.list();
  const under = runs.filter((run) => run.endedAt === null).length;
  const note = under === 0 ? null : `${count(under)} running`;
  const body =
    runs.length === 0
      ? empty("No active runs.", "Runs appear here when they start.")
      : el(
          "ol",
          { class: "live" },
          runs.map((run) => card(run, state, act)),
        );
  return panel("Live runs", { id: "live", note }, body);
}

function standing(run) {
  if (run.asks.size > 0) return status("pending", "waiting for approval");
  return run.isQueued && run.endedAt === null ? status("pending", "queued") : status(run.status);
}

function card(run, state, act) {
  const calls = [...run.calls.values()];
  const spent = run.seconds ?? Math.max(0, state.now - run.startedAt);
  const end = run.startedAt + spent;
  return el(
    "li",
    { class: run.endedAt === null ? "run" : "run is-over", key: run.id, "data-run": run.id, "data-status": run.status },
    el(
      "div",
      { class: "line" },
      standing(run),
      el("a", { href: `#/runs/${encodeURIComponent(run.id)}`, class: "id" }, run.id),
      el("span", { class: "dim" }, [run.principal, run.session, run.form].filter((text) => text !== "").join(" · ")),
      run.background ? el("span", { class: "chip" }, "background") : null,
      el("span", { class: "push" }, time(run.startedAt)),
      el("span", { class: "spent" }, run.endedAt === null ? `${spent.toFixed(1)} s` : seconds(spent)),
      run.endedAt === null
        ? el(
            "button",
            {
              type: "button",
              class: "small",
              "aria-label": `Cancel run ${run.id}`,
              disabled: state.busy.has(run.id),
              onclick: () => act.cancel(run.id),
            },
            "Cancel",
          )
        : null,
    ),
    run.failure === null ? null : el("p", { class: "error" }, el("b", {}, run.failure.type), " ", run.failure.message),
    calls.length === 0 ? null : waterfall(calls.slice(-CALLS_SHOWN), run.startedAt, end),
    calls.length > CALLS_SHOWN
      ? el("p", { class: "dim small" }, `and ${count(calls.length - CALLS_SHOWN)} earlier calls`)
      : null,
    run.output === ""
      ? null
      : el(
          "pre",
          { class: "output", "aria-label": `Output of run ${run.id}`, tabindex: "0" },
          run.cut || run.output.length > OUTPUT_SHOWN ? "…" : "",
          run.output.slice(-OUTPUT_SHOWN),
        ),
  );
}
