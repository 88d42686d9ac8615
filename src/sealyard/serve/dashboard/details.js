// One tool and one skill, in the drawer.

import { el } from "./dom.js";
import { count, percent, toolName } from "./format.js";
import { drawer, empty, facts, json, part, short, status, table, time, tool, wide } from "./parts.js";
import { code } from "./python.js";

const RELEASES = [...short("Version", "Released", "Change"), ...wide("Details")];
const HINTS = {
  read_only: "read-only",
  destructive: "destructive",
  idempotent: "idempotent",
  open_world: "open world",
};

/** A tool with its signature and its versions. */
export function toolDrawer(shown, state, act) {
  return drawer(["Tool ", el("code", {}, toolName(shown.id))], shown, act, (value) => [
    el(
      "div",
      { class: "line" },
      el("span", { class: "version" }, value.version),
      el("span", { class: "dim" }, value.upstream),
      hints(value.annotations),
    ),
    el("p", { class: "prose" }, value.description || "No description."),
    part("Usage", code(`${value.use}\n\n${value.signature}`)),
    part(
      "Versions",
      value.releases.length === 0
        ? empty("No changes recorded.")
        : table("Versions, the newest first", RELEASES, value.releases.map(release)),
    ),
    part("Input schema", json(value.input_schema)),
    value.output_schema === null ? null : part("Output schema", json(value.output_schema)),
  ]);
}

function hints(annotations) {
  return Object.entries(HINTS)
    .filter(([name]) => annotations[name] === true)
    .map(([name, text]) => el("span", { class: name === "destructive" ? "chip is-warn" : "chip" }, text));
}

function release({ version, kind, released_at: at, changes }) {
  return {
    key: version,
    cells: [
      el("span", { class: "version" }, version),
      time(at),
      kind,
      changes.length === 0
        ? "–"
        : el(
            "ul",
            {},
            changes.map((text) => el("li", {}, text)),
          ),
    ],
  };
}

/** A skill with its code and its usage. */
export function skillDrawer(shown, state, act) {
  return drawer(["Skill ", el("code", {}, shown.id.split("/").pop())], shown, act, (value) => [
    el(
      "div",
      { class: "line" },
      status(value.status),
      el("span", { class: "version" }, value.version),
      el("span", { class: "dim" }, `${value.namespace} · by ${value.author}`),
    ),
    el("p", { class: "prose" }, value.description),
    value.note ? el("p", { class: "warning" }, value.note) : null,
    value.warnings.map((text) => el("p", { class: "warning" }, text)),
    facts([
      ["effectiveness", percent(value.effectiveness)],
      ["uses", count(value.uses)],
      ["errors", count(value.failures)],
      ["last used", value.last_used_at ? time(value.last_used_at) : "–"],
      ["versions", value.versions.join(", ")],
    ]),
    part("Code", code(value.code)),
    value.tools.length === 0
      ? null
      : part(
          "Required tools",
          el(
            "p",
            { class: "together" },
            value.tools.map((need) => el("span", {}, tool(need.tool), ` ${need.version}`)),
          ),
        ),
  ]);
}
