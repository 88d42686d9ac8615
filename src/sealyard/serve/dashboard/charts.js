// Time series charts in SVG, with a reading by pointer or arrow keys and the same data as a table.

import { el, render, svg } from "./dom.js";
import { clock, day, exactTime } from "./format.js";

const HEIGHT = 168;
const EDGE = { top: 10, right: 6, bottom: 22, left: 52 };
const STEPS = [60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000];
const charts = new WeakMap();
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => charts.get(target)?.draw()));

/**
 * Draw into `host`, or draw again.
 *
 * `spec`: {title, kind: "bars" | "lines", series: [{label, tone, value(point)}], format, summary(points)}.
 * `points` have a `start`; `step` is how many seconds each stands for.
 */
export function drawChart(host, spec, points, step) {
  let chart = charts.get(host);
  if (chart === undefined) {
    chart = new Chart(host);
    charts.set(host, chart);
    resized.observe(host);
  }
  chart.set(spec, points, step);
}

class Chart {
  constructor(host) {
    this.host = host;
    this.at = null;
    this.legend = el("p", { class: "legend" });
    this.caption = el("figcaption", {}, el("h3", {}), this.legend);
    this.picture = svg("svg", { class: "plot", height: HEIGHT, role: "img" });
    this.picture.setAttribute("tabindex", "0");
    this.tip = el("div", { class: "tip", role: "status" });
    this.table = el("table", { class: "plain" });
    this.more = el(
      "details",
      { class: "more" },
      el("summary", {}, "As a table"),
      el("div", { class: "scroll" }, this.table),
    );
    this.picture.addEventListener("pointermove", (event) => this.read(this.nearest(event)));
    this.picture.addEventListener("pointerleave", () => this.read(null));
    this.picture.addEventListener("blur", () => this.read(null));
    this.picture.addEventListener("keydown", (event) => this.press(event));
    this.more.addEventListener("toggle", () => this.fill());
    host.replaceChildren(
      el("figure", {}, this.caption, el("div", { class: "canvas" }, this.picture, this.tip), this.more),
    );
  }

  set(spec, points, step) {
    const same = this.points === points && this.spec === spec;
    Object.assign(this, { spec, points, step });
    if (same) return;
    if (this.at !== null && this.at >= points.length) this.at = null;
    render(this.caption.firstChild, spec.title);
    render(
      this.legend,
      spec.series.map(({ label, tone }) => el("span", {}, key(tone), label)),
    );
    this.draw();
    this.fill();
  }

  draw() {
    const width = Math.max(200, Math.floor(this.host.clientWidth));
    if (this.points === undefined || this.host.clientWidth === 0) return;
    const { points, spec, step } = this;
    const first = points.length ? points[0].start : 0;
    const last = points.length ? points[points.length - 1].start + step : 1;
    const right = width - EDGE.right;
    const bottom = HEIGHT - EDGE.bottom;
    const ticks = valueTicks(spec, points);
    const top = ticks[ticks.length - 1];
    this.x = (at) => EDGE.left + ((at - first) / (last - first || 1)) * (right - EDGE.left);
    this.y = (value) => bottom - (value / top) * (bottom - EDGE.top);
    this.picture.setAttribute("width", width);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.picture.setAttribute("aria-label", `${spec.title}. ${spec.summary(points)} Arrow keys read single points.`);
    this.mark = svg("g", { class: "mark" });
    this.picture.replaceChildren(
      svg(
        "g",
        { class: "grid", "aria-hidden": "true" },
        ticks.map((value) => this.valueLine(value, right)),
      ),
      svg(
        "g",
        { class: "axis", "aria-hidden": "true" },
        timeTicks(first, last, right - EDGE.left).map((at) => this.timeLabel(at, last - first, bottom)),
      ),
      svg("g", { class: "data", "aria-hidden": "true" }, spec.kind === "bars" ? this.bars() : this.lines(bottom)),
      this.mark,
    );
    this.read(this.at);
  }

  valueLine(value, right) {
    const y = Math.round(this.y(value)) + 0.5;
    return [
      svg("line", { x1: EDGE.left, x2: right, y1: y, y2: y, class: value === 0 ? "zero" : null }),
      svg("text", { x: EDGE.left - 8, y: y + 3.5, "text-anchor": "end" }, round(this.spec.format(value))),
    ];
  }

  timeLabel(at, span, bottom) {
    return svg("text", { x: this.x(at), y: bottom + 16, "text-anchor": "middle" }, timeText(at, span));
  }

  bars() {
    const wide = Math.max(1, this.x(this.step) - this.x(0) - 1.5);
    return this.points.map((point) => {
      let below = 0;
      return this.spec.series.map(({ tone, value }) => {
        const own = value(point) ?? 0;
        if (own === 0) return null;
        const [low, high] = [this.y(below), this.y(below + own)];
        below += own;
        const x = this.x(point.start) + 0.75;
        return svg("rect", { class: `tone-${tone}`, x, y: high, width: wide, height: Math.max(1, low - high) });
      });
    });
  }

  lines(bottom) {
    return this.spec.series.map(({ tone, value, area }) => {
      const runs = pieces(this.points, value);
      const middle = this.step / 2;
      return runs.map((run) => {
        const dots = run.map(
          (point) => `${this.x(point.start + middle).toFixed(1)},${this.y(value(point)).toFixed(1)}`,
        );
        const ends = [run[0], run[run.length - 1]].map((point) => this.x(point.start + middle).toFixed(1));
        return [
          area
            ? svg("polygon", {
                class: `area tone-${tone}`,
                points: `${ends[0]},${bottom} ${dots.join(" ")} ${ends[1]},${bottom}`,
              })
            : null,
          run.length === 1
            ? svg("circle", { class: `dot tone-${tone}`, cx: ends[0], cy: this.y(value(run[0])), r: 2.5 })
            : svg("polyline", { class: `line tone-${tone}`, points: dots.join(" ") }),
        ];
      });
    });
  }

  nearest(event) {
    const place = event.clientX - this.picture.getBoundingClientRect().left;
    const index = this.points.findIndex((point) => place < this.x(point.start + this.step));
    return place < EDGE.left || this.points.length === 0 ? null : index === -1 ? this.points.length - 1 : index;
  }

  press(event) {
    const end = this.points.length - 1;
    const at = this.at ?? (event.key === "ArrowRight" ? -1 : end + 1);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: end }[event.key];
    if (event.key === "Escape") this.read(null);
    if (next === undefined || end < 0) return;
    event.preventDefault();
    this.read(Math.min(end, Math.max(0, next)));
  }

  read(index) {
    this.at = index;
    if (this.mark === undefined) return;
    const point = index === null ? undefined : this.points[index];
    this.tip.classList.toggle("shown", point !== undefined);
    if (point === undefined) {
      this.mark.replaceChildren();
      return;
    }
    const middle = this.x(point.start + this.step / 2);
    const dots = this.spec.kind === "bars" ? [] : this.spec.series.filter(({ value }) => value(point) !== null);
    this.mark.replaceChildren(
      svg("line", { x1: middle, x2: middle, y1: EDGE.top, y2: HEIGHT - EDGE.bottom }),
      ...dots.map(({ tone, value }) =>
        svg("circle", { class: `dot tone-${tone}`, cx: middle, cy: this.y(value(point)), r: 3.5 }),
      ),
    );
    render(
      this.tip,
      el("strong", {}, spanText(point.start, this.step)),
      this.spec.series.map(({ label, tone, value }) =>
        el("span", {}, key(tone), `${label} `, el("b", {}, this.spec.format(value(point)))),
      ),
    );
    const room = this.host.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, middle - this.tip.offsetWidth / 2))}px`;
  }

  fill() {
    if (!this.more.open || this.points === undefined) return;
    const { series, format } = this.spec;
    render(
      this.table,
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }, "From"),
          series.map(({ label }) => el("th", { scope: "col", class: "right" }, label)),
        ),
      ),
      el(
        "tbody",
        {},
        [...this.points].reverse().map((point) => this.row(point, series, format)),
      ),
    );
  }

  row(point, series, format) {
    const figures = series.map(({ value }) =>
      el("td", { class: "right", title: String(value(point) ?? "") }, format(value(point))),
    );
    return el(
      "tr",
      { key: point.start },
      el("th", { scope: "row", title: exactTime(point.start) }, spanText(point.start, this.step)),
      figures,
    );
  }
}

function key(tone) {
  return svg(
    "svg",
    { class: `key tone-${tone}`, width: 10, height: 10, "aria-hidden": "true" },
    svg("rect", { width: 10, height: 10, rx: 2 }),
  );
}

/** Runs of consecutive points with a value: a missing value is a gap, not a zero. */
function pieces(points, value) {
  const found = [];
  let open = null;
  for (const point of points) {
    if (value(point) === null || value(point) === undefined) open = null;
    else if (open === null) found.push((open = [point]));
    else open.push(point);
  }
  return found;
}

function valueTicks(spec, points) {
  const sizes = points.map((point) => {
    const values = spec.series.map(({ value }) => value(point) ?? 0);
    return spec.kind === "bars" ? values.reduce((sum, each) => sum + each, 0) : Math.max(...values);
  });
  const most = Math.max(0, ...sizes) || spec.least || 1;
  const rough = most / 3;
  const scale = 10 ** Math.floor(Math.log10(rough));
  let tick = [1, 2, 2.5, 5, 10].map((each) => each * scale).find((each) => each >= rough);
  if (spec.isWhole) tick = Math.max(1, Math.ceil(tick));
  const found = [0];
  while (found[found.length - 1] < most) found.push(found.length * tick);
  return found;
}

/** `3 s` for `3.00 s`: grid line values are exact. */
function round(text) {
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

function timeTicks(first, last, wide) {
  const most = Math.max(2, Math.floor(wide / 76));
  const step = STEPS.find((each) => (last - first) / each <= most) ?? (last - first) / most;
  const shift = step >= 3600 ? new Date(first * 1000).getTimezoneOffset() * 60 : 0;
  const found = [];
  for (let at = Math.ceil((first - shift) / step) * step + shift; at <= last; at += step) {
    if (at - first > (last - first) * 0.02 && last - at > (last - first) * 0.03) found.push(at);
  }
  return found;
}

function timeText(at, span) {
  return span > 2 * 86_400 ? day(at) : clock(at).slice(0, 5);
}

function spanText(start, step) {
  if (step >= 86_400) return day(start);
  return `${day(start)} ${clock(start).slice(0, 5)}–${clock(start + step).slice(0, 5)}`;
}
