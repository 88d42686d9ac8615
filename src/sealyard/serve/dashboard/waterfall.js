// The tool calls of one run on a timeline.

import { el, svg } from "./dom.js";
import { bytes, seconds } from "./format.js";
import { tool } from "./parts.js";

/** One row for each call; `extra(call)` may add details below it. */
export function waterfall(calls, from, until, extra = () => null) {
  const span = Math.max(until - from, 0.001);
  return el(
    "ol",
    { class: "calls" },
    calls.map((call) => line(call, from, span, until, extra)),
  );
}

function line(call, from, span, until, extra) {
  const end = call.seconds === null ? until : call.at + call.seconds;
  const left = clamp((call.at - from) / span) * 100;
  const wide = Math.max(0.6, clamp((end - call.at) / span) * 100);
  const tone = call.error ? "bad" : call.seconds === null ? "live" : "accent";
  const bar = svg(
    "svg",
    { class: `fall tone-${tone}`, "aria-hidden": "true" },
    svg("rect", { class: "whole", width: "100%", height: "100%", rx: 2 }),
    svg("rect", { x: `${Math.min(left, 99.4).toFixed(2)}%`, width: `${wide.toFixed(2)}%`, height: "100%", rx: 2 }),
  );
  return el(
    "li",
    { key: call.number, "data-call": String(call.number), class: call.error ? "is-bad" : null },
    el(
      "div",
      { class: "call" },
      el("span", { class: "number" }, call.number),
      tool(call.tool),
      bar,
      el("span", { class: "took" }, text(call)),
    ),
    call.error ? el("p", { class: "error" }, call.error) : null,
    extra(call),
  );
}

function text(call) {
  if (call.seconds === null) return "…";
  return call.bytes ? `${seconds(call.seconds)} · ${bytes(call.bytes)}` : seconds(call.seconds);
}

function clamp(value) {
  return Math.max(0, Math.min(1, value));
}
