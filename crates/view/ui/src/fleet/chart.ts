// CPU over time: a small line for the list, and the chart of a service with its versions, deployments and
// the range that is selected.

import type { Series, Version } from "./api";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 170;
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 8, 20, 18];
// A selection shorter than this many pixels is a click.
const LEAST_PIXELS = 4;
export const COLORS = 8;

export type Range = [number, number];

function svg(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

// Nanoseconds of CPU time in each step as cores, all lines together.
export function cores(series: Series): number[] {
  const length = Math.max(0, ...series.series.map((one) => one.weights.length));
  const sums = new Array<number>(length).fill(0);
  for (const one of series.series) one.weights.forEach((weight, at) => (sums[at] += weight));
  return sums.map((sum) => sum / series.step / 1e9);
}

export function spark(series: Series, highest: number): SVGElement {
  const values = cores(series);
  const made = svg("svg", { class: "spark", viewBox: "0 0 110 26", "aria-hidden": "true" });
  const across = (at: number) => ((at / Math.max(1, values.length)) * 110).toFixed(1);
  const up = (value: number) => (25 - (value / Math.max(highest, 1e-9)) * 24).toFixed(1);
  const points = values.map((value, at) => `${across(at)},${up(value)} ${across(at + 1)},${up(value)}`);
  if (points.length > 0)
    made.append(svg("polygon", { class: "v0", points: `0,26 ${points.join(" ")} 110,26` }));
  return made;
}

// A round number of cores that is not below any.
function ceiling(highest: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(highest, 1e-3)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= highest) ?? highest;
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
  series: Series;
  // In the order they were deployed; a version's place is its colour.
  versions: Version[];
  // Deployments that somebody marked.
  marks: { version: string; time: number }[];
  selected: Range | undefined;
  onSelect(range: Range | undefined): void;
}

export function draw(host: HTMLElement, drawn: Drawn): void {
  const width = Math.max(200, host.clientWidth);
  const [from, until] = drawn.range;
  const length = until - from;
  const inner = width - LEFT - RIGHT;
  const x = (time: number) => LEFT + (Math.min(Math.max(time, from), until) - from) * (inner / length);
  const highest = ceiling(Math.max(0, ...cores(drawn.series)));
  const y = (value: number) => HEIGHT - BOTTOM - (value / highest) * (HEIGHT - TOP - BOTTOM);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, role: "img" });
  picture.append(svg("title", {}, "CPU over time in cores, by version; drag to select a range"));
  for (const value of [0, highest / 2, highest]) {
    picture.append(svg("line", { class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }));
    const text = Number(value.toPrecision(2)).toString();
    picture.append(svg("text", { class: "words", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  picture.append(svg("text", { class: "words", x: LEFT, y: 11 }, "cores"));
  drawLayers(picture, drawn, x, y);
  drawTimes(picture, drawn.range, x);
  drawMarks(picture, drawn, x, width);
  if (drawn.selected) drawBrush(picture, drawn.selected.map(x) as Range);
  host.replaceChildren(picture);
  listen(host, drawn, (pixels) => from + ((pixels - LEFT) / inner) * length);
}

// Versions on top of one another, each step as wide as it is long.
function drawLayers(
  picture: SVGElement,
  drawn: Drawn,
  x: (time: number) => number,
  y: (value: number) => number,
): void {
  const { start, step } = drawn.series;
  const below: number[] = [];
  for (const [place, version] of drawn.versions.entries()) {
    const line = drawn.series.series.find((one) => one.labels.version === version.version);
    if (!line) continue;
    let path = "";
    line.weights.forEach((weight, at) => {
      const bottom = below[at] ?? 0;
      const top = bottom + weight / step / 1e9;
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

// A line where a version was first seen, with its name where there is room for it.
function drawMarks(picture: SVGElement, drawn: Drawn, x: (time: number) => number, width: number): void {
  let free = 0;
  const seen = drawn.versions.map((one) => ({ version: one.version, time: one.first }));
  for (const { version, time } of [...seen, ...drawn.marks].sort((one, other) => one.time - other.time)) {
    if (time <= drawn.range[0] || time >= drawn.range[1]) continue;
    const at = x(time);
    picture.append(svg("line", { class: "mark", x1: at, x2: at, y1: TOP - 8, y2: HEIGHT - BOTTOM }));
    const name = version || "no version";
    const room = name.length * 6.5;
    if (at < free || at + room > width) continue;
    free = at + room + 10;
    picture.append(svg("text", { class: "mark-name", x: at + 4, y: 11 }, name));
  }
}

function drawBrush(picture: SVGElement, [left, right]: Range): void {
  const height = HEIGHT - TOP - BOTTOM;
  picture.append(svg("rect", { class: "brush", x: left, y: TOP, width: right - left, height }));
  for (const edge of [left, right]) {
    picture.append(svg("line", { class: "brush-edge", x1: edge, x2: edge, y1: TOP, y2: TOP + height }));
  }
}

// Dragging selects a range, a click none.
function listen(host: HTMLElement, drawn: Drawn, timeAt: (pixels: number) => number): void {
  host.onpointerdown = (down) => {
    if (down.button !== 0) return;
    const started = down.clientX;
    const left = host.getBoundingClientRect().left;
    host.setPointerCapture(down.pointerId);
    const selection = (event: PointerEvent): Range | undefined => {
      if (Math.abs(event.clientX - started) < LEAST_PIXELS) return undefined;
      const ends = [started, event.clientX].map((pixels) => timeAt(pixels - left));
      const [from, until] = drawn.range;
      const bounded = ends.map((end) => Math.round(Math.min(Math.max(end, from), until)));
      return [Math.min(...bounded), Math.max(...bounded)];
    };
    host.onpointermove = (move) => {
      const selected = selection(move);
      if (selected) draw(host, { ...drawn, selected });
    };
    host.onpointerup = (up) => {
      host.onpointermove = null;
      host.onpointerup = null;
      drawn.onSelect(selection(up));
    };
  };
}
