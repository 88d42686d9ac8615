// The Tools, Skills and Upstreams pages.

import { el } from "./dom.js";
import { bytes, count, percent, seconds, toolName, whole } from "./format.js";
import {
  empty,
  facts,
  figure,
  from,
  meter,
  numeric,
  panel,
  share,
  short,
  status,
  table,
  time,
  tool,
  wide,
} from "./parts.js";
import { sources } from "./sources.js";

const ROWS_SHOWN = 200;
const TOOL_COLUMNS = [
  ...wide("Tool"),
  ...short("Version"),
  ...numeric("Calls", "Errors", "Refused", "Latency (p50)", "Latency (p95)", "Last call"),
];
const PROFILE_COLUMNS = [...short("Profile", "Mode", "Level"), ...wide("Upstreams", "Bound principals")];
const SKILL_COLUMNS = [
  ...wide("Skill"),
  ...short("Version", "Status", "Effectiveness"),
  ...numeric("Uses", "Errors", "Last used"),
];

/** Every tool, the most called first. */
export function tools(state, act) {
  const search = el(
    "label",
    { class: "filters" },
    "Filter ",
    el("input", {
      type: "search",
      name: "tools",
      autocomplete: "off",
      spellcheck: "false",
      oninput: (event) => act.search("tools", event.currentTarget.value),
    }),
  );
  return [
    el("h1", {}, "Tools"),
    panel(
      "Tools and versions",
      { id: "tools", actions: search },
      from(sources.tools, (value) => toolTable(value.tools, state), { hurry: () => act.hurry("tools") }),
    ),
  ];
}

function toolTable(listed, state) {
  const used = sources.usage.value?.tools ?? [];
  const rows = joined(listed, used).filter((row) => matches(row.name, state.searches.tools));
  if (rows.length === 0)
    return empty(listed.length === 0 ? "No tools yet." : "No tool matches the filter.");
  return [
    table("Tools, the most called first", TOOL_COLUMNS, rows.slice(0, ROWS_SHOWN).map(toolRow)),
    rows.length > ROWS_SHOWN
      ? el("p", { class: "dim small" }, `${count(rows.length - ROWS_SHOWN)} more; filter to see them.`)
      : null,
  ];
}

/** A row for each tool and for each version of it that was called. */
function joined(listed, used) {
  const rows = new Map();
  for (const each of listed)
    rows.set(`${each.name} ${each.version}`, {
      name: each.name,
      version: each.version,
      description: each.description ?? "",
      isGone: false,
      use: null,
    });
  for (const use of used) {
    const key = `${use.tool} ${use.version}`;
    const row = rows.get(key) ?? { name: use.tool, version: use.version, description: "", isGone: true };
    rows.set(key, { ...row, use });
  }
  return [...rows.values()].sort(
    (a, b) =>
      (b.use?.calls ?? 0) - (a.use?.calls ?? 0) || a.name.localeCompare(b.name) || b.version.localeCompare(a.version),
  );
}

function toolRow({ name, version, description, isGone, use }) {
  return {
    key: `${name} ${version}`,
    tone: isGone ? "is-gone" : null,
    cells: [
      [
        isGone ? tool(name) : el("a", { href: `#/tools/${encodeURIComponent(name)}` }, tool(name)),
        el("span", { class: "dim clip", title: description }, description.split("\n")[0]),
      ],
      [el("span", { class: "version" }, version), isGone ? el("span", { class: "chip" }, "older") : null],
      use === null ? "0" : figure("", use.calls, count),
      use === null ? "–" : share(use.errors, use.calls - use.refused),
      use === null ? "–" : count(use.refused),
      seconds(use?.p50_seconds),
      seconds(use?.p95_seconds),
      use === null ? "–" : time(use.last_at),
    ],
  };
}

/** Saved skills and their success rate. */
export function skills(state, act) {
  return [
    el("h1", {}, "Skills"),
    from(sources.report, ({ skills: sums }) => skillTiles(sums)),
    panel(
      "Saved skills",
      { id: "skills" },
      from(sources.skills, (value) => skillTable(value.skills), { hurry: () => act.hurry("skills") }),
    ),
  ];
}

function skillTiles(sums) {
  const of = (title, name, format = count) =>
    el(
      "div",
      { class: "tile", key: name },
      el("h2", {}, title),
      el("p", { class: "value" }, figure(`skills.${name}`, sums[name], format)),
    );
  return el(
    "div",
    { class: "tiles few", key: "tiles" },
    of("Saved", "saved"),
    of("Reused", "reused"),
    of("Runs that use a skill", "reuse_ratio", percent),
    of("Errors", "failed"),
    of("Migrated", "migrated"),
  );
}

function skillTable(list) {
  if (list.length === 0) return empty("No skills yet.", "Agents save working code with save_skill.");
  return table("Skills", SKILL_COLUMNS, list.map(skillRow));
}

function skillRow(skill) {
  return {
    key: `${skill.namespace} ${skill.name}`,
    cells: [
      [
        el(
          "a",
          { href: `#/skills/${encodeURIComponent(skill.namespace)}/${encodeURIComponent(skill.name)}` },
          el("code", { class: "tool" }, skill.name),
        ),
        el("span", { class: "chip" }, skill.shared ? "shared" : skill.namespace),
        el("span", { class: "dim clip", title: skill.description }, skill.description),
      ],
      el("span", { class: "version" }, skill.version),
      status(skill.status),
      skill.effectiveness === null
        ? el("span", { class: "dim" }, "not used yet")
        : el("span", { class: "effect" }, meter(skill.effectiveness), figure("", skill.effectiveness, percent)),
      count(skill.uses),
      count(skill.failures),
      skill.last_used_at ? time(skill.last_used_at) : "–",
    ],
  };
}

/** The state and figures of each upstream, and the profiles that leave some of them out. */
export function upstreams(state, act) {
  return [
    el("h1", {}, "Upstreams"),
    from(
      sources.upstreams,
      ({ upstreams: list }) =>
        list.length === 0
          ? empty("No upstreams configured.", "Add one to sealyard.toml.")
          : el("div", { class: "cards" }, list.map(upstreamCard)),
      { hurry: () => act.hurry("upstreams") },
    ),
    from(
      sources.profiles,
      ({ profiles: list }) =>
        list.length === 0
          ? null
          : panel("Profiles", { id: "profiles" }, table("Profiles", PROFILE_COLUMNS, list.map(profileRow))),
      { hurry: () => act.hurry("profiles") },
    ),
  ];
}

function profileRow(each) {
  return {
    key: each.name,
    cells: [
      [each.name, el("span", { class: "dim small" }, ` ${each.path}`)],
      each.mode ?? "by client",
      each.level,
      each.upstreams.join(", ") || "none",
      each.principals.join(", ") || "–",
    ],
  };
}

function upstreamCard(each) {
  const sums = sources.report.value?.upstreams?.[each.name] ?? null;
  const path = (name) => `upstreams.${each.name}.${name}`;
  return el(
    "section",
    { class: "panel upstream", key: each.name, "data-upstream": each.name },
    el(
      "div",
      { class: "line" },
      el("h2", {}, each.name),
      status(each.state),
      each.circuit_open ? el("span", { class: "chip is-bad" }, "circuit open") : null,
    ),
    el("p", { class: "dim small" }, [each.transport, each.server, each.protocol_version].filter(Boolean).join(" · ")),
    facts([
      ["tools", whole(each.tools)],
      ["calls", sums ? figure(path("calls"), sums.calls, count) : count(each.calls)],
      ["error rate", sums ? figure(path("error_rate"), sums.error_rate, percent) : count(each.failures)],
      sums ? ["latency (p50)", figure(path("p50_seconds"), sums.p50_seconds, seconds)] : null,
      sums ? ["latency (p95)", figure(path("p95_seconds"), sums.p95_seconds, seconds)] : null,
      sums ? ["response bytes", figure(path("answer_bytes"), sums.answer_bytes, bytes)] : null,
      ["restarts", sums ? figure(path("restarts"), sums.restarts, count) : count(each.restarts)],
      ["circuit", each.circuit_open ? "open" : "closed"],
      sums ? ["circuit opened", figure(path("circuit_opened"), sums.circuit_opened, count)] : null,
    ]),
    each.error ? el("p", { class: "error" }, each.error) : null,
    each.warnings.map((warning) => el("p", { class: "warning small" }, warning)),
  );
}

function matches(name, wanted) {
  const text = (wanted ?? "").trim().toLowerCase();
  return text === "" || name.toLowerCase().includes(text) || toolName(name).toLowerCase().includes(text);
}
