// Numbers, times and names in readable form. The caller keeps the exact value in a `title`.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const NOTHING = "–";

/** 9,876 or, from a hundred thousand on, 123K. */
export function count(value) {
  if (value === null || value === undefined) return NOTHING;
  return Math.abs(value) < 100_000 ? WHOLE.format(value) : SHORT.format(value);
}

/** Every digit. */
export function whole(value) {
  return value === null || value === undefined ? NOTHING : WHOLE.format(value);
}

/** 12.4 MB. */
export function bytes(value) {
  if (value === null || value === undefined) return NOTHING;
  let rest = value;
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (rest < 1000) return `${unit === "B" ? WHOLE.format(rest) : digits(rest)} ${unit}`;
    rest /= 1000;
  }
  return `${digits(rest)} TB`;
}

/** 0.4 ms, 123 ms, 1.24 s, 2 min 05 s, 3 h 12 min. */
export function seconds(value) {
  if (value === null || value === undefined) return NOTHING;
  if (value === 0) return "0 s";
  if (value < 0.9995) return `${digits(value * 1000)} ms`;
  if (value < 59.95) return `${digits(value)} s`;
  const all = Math.round(value);
  if (all < 3600) return `${Math.floor(all / 60)} min ${pad(all % 60)} s`;
  if (all < 86_400) return `${Math.floor(all / 3600)} h ${pad(Math.floor((all % 3600) / 60))} min`;
  return `${Math.floor(all / 86_400)} d ${Math.floor((all % 86_400) / 3600)} h`;
}

/** 96.0 %. A share just short of the whole does not look whole. */
export function percent(value) {
  if (value === null || value === undefined) return NOTHING;
  const shown = value < 1 && value > 0.999 ? Math.floor(value * 10_000) / 100 : Math.round(value * 1000) / 10;
  return `${shown === 100 || shown === 0 ? shown : shown.toFixed(shown > 99.9 ? 2 : 1)} %`;
}

/** $37.21; four decimals below a dollar's tenth. */
export function dollars(value) {
  if (value === null || value === undefined) return NOTHING;
  const size = Math.abs(value);
  const places = size !== 0 && size < 0.1 ? 4 : size < 100_000 ? 2 : 0;
  const text = size.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  return `${value < 0 ? "−" : ""}$${text}`;
}

/** 14:03:22, here. */
export function clock(at) {
  const date = new Date(at * 1000);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** The time of day if it is today, else with the date before it. */
export function moment(at) {
  if (at === null || at === undefined) return NOTHING;
  const date = new Date(at * 1000);
  if (date.toDateString() === new Date().toDateString()) return clock(at);
  return `${day(at)} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

/** 16 Nov. */
export function day(at) {
  return new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

/** The full date and time, for a `title`. */
export function exactTime(at) {
  return at === null || at === undefined ? "" : new Date(at * 1000).toISOString();
}

/** `expenses.get_budget` for `mcp__expenses__get_budget`. */
export function toolName(full) {
  const match = /^mcp__(.+?)__(.+)$/s.exec(full ?? "");
  return match === null ? (full ?? "") : `${match[1]}.${match[2]}`;
}

/** An API word with spaces: `backing_off` becomes `backing off`. */
export function words(text) {
  return String(text ?? "").replaceAll("_", " ");
}

/** The text with invisible and reordering characters escaped. */
export function plain(text) {
  return String(text).replace(
    /[\p{C}\p{Zl}\p{Zp}\u00a0\u2000-\u200f\u3000\u115f\u1160\u3164\uffa0]/gu,
    (each) => `\\u{${each.codePointAt(0).toString(16)}}`,
  );
}

function digits(value) {
  if (value >= 100) return WHOLE.format(value);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function pad(value) {
  return String(value).padStart(2, "0");
}
