// CPU over time: a small picture for lists, and the chart of a service with its versions, deployments and the
// ranges that are selected and compared.

import type { Series, Service } from "./api";
import type { Range } from "./state";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 140;
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 8, 20, 18];
// A selection shorter than this many pixels is a click.
const LEAST_PIXELS = 4;
// Nothing is known of shorter times than this many seconds.
const WINDOW = 10;
export const COLORS = 8;

export function svg(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

// How much of a step is in a range: the first and the last may be in part.
function secondsOf({ start, step }: Series, at: number, [from, until]: Range): number {
  const begin = start + at * step;
  return Math.max(WINDOW, Math.min(begin + step, until) - Math.max(begin, from));
}

// Nanoseconds of CPU time in each step as cores, all lines together.
export function cores(series: Series, shown: Range): number[] {
  const length = Math.max(0, ...series.series.map((one) => one.weights.length));
  const sums = new Array<number>(length).fill(0);
  for (const one of series.series) one.weights.forEach((weight, at) => (sums[at] += weight));
  return sums.map((sum, at) => sum / secondsOf(series, at, shown) / 1e9);
}

// When versions were first seen, and what somebody marked, in a range.
export function deployments(service: Service, [from, until]: Range): { version: string; time: number }[] {
  const seen = service.versions.map((one) => ({ version: one.version, time: one.first }));
  const all = [...seen, ...service.marks].filter(({ time }) => time > from && time < until);
  return all.sort((one, other) => one.time - other.time);
}

// A small picture: what a service used in a range, up to its own highest, with a line for each deployment.
export function spark(service: Service, series: Series, shown: Range, size: [number, number]): SVGElement {
  const [width, height] = size;
  const values = cores(series, shown);
  const made = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  made.setAttribute("preserveAspectRatio", "none");
  const [from, until] = shown;
  const bounded = (time: number) => Math.min(Math.max(time, from), until);
  const x = (time: number) => (((bounded(time) - from) / (until - from)) * width).toFixed(1);
  const highest = Math.max(...values, 1e-9);
  const y = (value: number) => (height - (value / highest) * (height - 3)).toFixed(1);
  let path = `M0,${height}`;
  values.forEach((value, at) => {
    const start = series.start + at * series.step;
    path += `L${x(start)},${y(value)}L${x(start + series.step)},${y(value)}`;
  });
  made.append(svg("path", { class: "area", d: `${path}L${x(until)},${height}Z` }));
  for (const { time } of deployments(service, shown)) {
    const line = { class: "mark", x1: x(time), x2: x(time), y1: 0, y2: height };
    made.append(svg("line", { ...line, "vector-effect": "non-scaling-stroke" }));
  }
  return made;
}

// A round number of cores that is not below any.
function ceiling(highest: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(highest, 1e-3)));
  return (
    [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((value) => value >= highest) ??
    highest
  );
}

export function clock(seconds: number, length: number): string {
  const date = new Date(seconds * 1000);
  const two = (number: number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  if (length <= 1800) return `${time}:${two(date.getSeconds())}`;
  if (length <= 86400) return time;
  return `${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}

export interface Drawn {
  range: Range;
  service: Service;
  series: Series;
  selected: Range | undefined;
  base: Range | undefined;
  // Shift and a drag is the range that is compared with.
  onSelect(range: Range | undefined, isBase: boolean): void;
}

export function draw(host: HTMLElement, drawn: Drawn): void {
  const width = Math.max(200, host.clientWidth);
  const [from, until] = drawn.range;
  const length = until - from;
  const inner = width - LEFT - RIGHT;
  const x = (time: number) => LEFT + (Math.min(Math.max(time, from), until) - from) * (inner / length);
  const highest = ceiling(Math.max(0, ...cores(drawn.series, drawn.range)));
  const y = (value: number) => HEIGHT - BOTTOM - (value / highest) * (HEIGHT - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img" });
  const title =
    "CPU over time in cores, by version; drag to select a range, Shift and drag to compare with one";
  picture.append(svg("title", {}, title));
  for (const value of [0, highest / 2, highest]) {
    picture.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    const text = Number(value.toPrecision(2)).toString();
    picture.append(svg("text", { class: "words", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  picture.append(svg("text", { class: "words", x: LEFT, y: 11 }, "cores"));
  drawLayers(picture, drawn, x, y);
  drawTimes(picture, drawn.range, x);
  drawMarks(picture, drawn, x, width);
  if (drawn.base) drawBrush(picture, drawn.base, drawn.range, x, "base");
  if (drawn.selected) drawBrush(picture, drawn.selected, drawn.range, x, "");
  host.replaceChildren(picture);
  listen(host, drawn, (pixels) => from + ((pixels - LEFT) / inner) * length);
}

// Versions on top of one another, each step as wide as it is long. A version's place is its colour.
function drawLayers(
  picture: SVGElement,
  { series: all, service, range }: Drawn,
  x: (time: number) => number,
  y: (value: number) => number,
): void {
  const { start, step } = all;
  const below: number[] = [];
  for (const [place, version] of service.versions.entries()) {
    const line = all.series.find((one) => one.labels.version === version.version);
    if (!line) continue;
    let path = "";
    line.weights.forEach((weight, at) => {
      const bottom = below[at] ?? 0;
      const top = bottom + weight / secondsOf(all, at, range) / 1e9;
      below[at] = top;
      if (weight === 0) return;
      const [left, right] = [x(start + at * step), x(start + (at + 1) * step)];
      if (right > left) path += `M${left.toFixed(1)},${y(bottom).toFixed(1)}V${y(top).toFixed(1)}`;
      if (right > left) path += `H${right.toFixed(1)}V${y(bottom).toFixed(1)}Z`;
    });
    picture.append(svg("path", { class: `v${place % COLORS}`, d: path }));
  }
}

function drawTimes(picture: SVGElement, [from, until]: Range, x: (time: number) => number): void {
  const count = 6;
  for (let at = 0; at <= count; at += 1) {
    const time = from + ((until - from) * at) / count;
    const anchor = at === 0 ? "start" : at === count ? "end" : "middle";
    const place = { class: "words", x: x(time), y: HEIGHT - 4, "text-anchor": anchor };
    picture.append(svg("text", place, clock(time, until - from)));
  }
}

// A line for each deployment, with its version where there is room for it.
function drawMarks(picture: SVGElement, drawn: Drawn, x: (time: number) => number, width: number): void {
  // The unit of the axis is before them.
  let free = LEFT + 40;
  const all = deployments(drawn.service, drawn.range);
  for (const [number, { version, time }] of all.entries()) {
    const at = x(time);
    const next = all[number + 1];
    const name = version || "no version";
    const line = svg("line", { class: "mark", x1: at, x2: at, y1: TOP - 8, y2: HEIGHT - BOTTOM });
    line.append(svg("title", {}, `${name}, ${clock(time, drawn.range[1] - drawn.range[0])}`));
    picture.append(line);
    const room = name.length * 6.5;
    const isBefore = at + 4 + room > width;
    const left = isBefore ? at - 4 - room : at + 4;
    if (left < free || (next && !isBefore && left + room > x(next.time))) continue;
    free = left + room + 10;
    const anchor = isBefore ? "end" : "start";
    const place = { class: "mark-name", x: isBefore ? at - 4 : at + 4, y: 11, "text-anchor": anchor };
    picture.append(svg("text", place, name));
  }
}

function drawBrush(
  picture: SVGElement,
  [from, until]: Range,
  shown: Range,
  x: (time: number) => number,
  kind: string,
): void {
  if (until <= shown[0] || from >= shown[1]) return;
  const [left, right] = [x(from), x(until)];
  const height = HEIGHT - TOP - BOTTOM;
  picture.append(svg("rect", { class: `brush ${kind}`, x: left, y: TOP, width: right - left, height }));
  for (const edge of [left, right]) {
    const line = { class: `brush-edge ${kind}`, x1: edge, x2: edge, y1: TOP, y2: TOP + height };
    picture.append(svg("line", line));
  }
}

// Dragging selects a range, a click none.
function listen(host: HTMLElement, drawn: Drawn, timeAt: (pixels: number) => number): void {
  host.onpointerdown = (down) => {
    if (down.button !== 0) return;
    down.preventDefault();
    const started = down.clientX;
    // Ctrl is what the heat map of the viewer has for it.
    const isBase = down.shiftKey || down.ctrlKey || down.metaKey;
    const left = host.getBoundingClientRect().left;
    host.setPointerCapture(down.pointerId);
    const selection = (event: PointerEvent): Range | undefined => {
      if (Math.abs(event.clientX - started) < LEAST_PIXELS) return undefined;
      const ends = [started, event.clientX].map((pixels) => timeAt(pixels - left));
      const [from, until] = drawn.range;
      const bounded = ends.map((end) => Math.round(Math.min(Math.max(end, from), until)));
      const chosen: Range = [Math.min(...bounded), Math.max(...bounded)];
      return chosen[1] > chosen[0] ? chosen : undefined;
    };
    host.onpointermove = (move) => {
      const chosen = selection(move);
      if (chosen) draw(host, { ...drawn, [isBase ? "base" : "selected"]: chosen });
    };
    host.onpointerup = (up) => {
      host.onpointermove = null;
      host.onpointerup = null;
      drawn.onSelect(selection(up), isBase);
    };
  };
}
