// Above the view: the heat map, in which time is chosen, or the threads, which are chosen there.

import { columnLength, type HeatMap } from "../model/heat";
import type { ThreadIndex } from "../model/indexes";
import { ROLE_LABELS } from "../model/tables";
import type { Range } from "../model/tree";
import type { App, Panel } from "./app";
import { hslPixel } from "./colors";
import { button, byId, eachFrame, element, fit } from "./dom";
import { Lanes } from "./lanes";
import type { Overview as Kind } from "./state";
import type { Tooltip } from "./tooltip";
import { count, moment, percent, tickStep, weightText } from "./words";

const ROW_PIXELS = 2.2;
const MAX_ROWS = 50; // of a minute or more
const MIN_ROWS = 20; // of five seconds or less
const [SHORT, LONG] = [5e9, 60e9];
const AXIS_LABEL_PX = 34;
export const TRACK_BINS = 600;

export class Overview implements Panel {
  readonly root = byId("overview");
  private readonly heat: HeatCanvas;
  private readonly threads = element("div", { className: "tracks" });
  readonly lanes: Lanes;

  constructor(
    private readonly app: App,
    tooltip: Tooltip,
  ) {
    this.heat = new HeatCanvas(app, tooltip);
    for (const kind of ["heat", "threads", "none"] as Kind[]) {
      byId(`overview-${kind}`).addEventListener("click", () => app.change({ overview: kind }));
    }
    this.lanes = new Lanes(app, tooltip, (width) => spanOf(app.end, width));
    byId("overview-body").append(this.heat.root, this.threads, this.lanes.root);
  }

  // Time says something once there are some samples at different times.
  private get kind(): Kind {
    const { app } = this;
    return app.state.overview ?? (app.samples > 50 && app.end > 2e8 ? "heat" : "none");
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.samples < 2 && !this.lanes.isThere;
    for (const kind of ["heat", "threads", "none"] as Kind[])
      byId(`overview-${kind}`).ariaPressed = String(this.kind === kind);
    this.heat.root.hidden = this.kind !== "heat";
    this.threads.hidden = this.kind !== "threads";
    byId("overview-body").hidden = this.kind === "none";
    const hasLanes = app.isReady && this.lanes.isThere && this.kind !== "none";
    this.root.classList.toggle("has-lanes", hasLanes);
    this.root.classList.toggle("has-heat", this.kind === "heat");
    this.lanes.root.hidden = !hasLanes;
    if (this.root.hidden) return;
    if (this.kind === "heat") this.heat.update();
    if (this.kind === "threads") this.showThreads();
    if (hasLanes) this.lanes.update();
  }

  private threadsKey = "";

  private showThreads(): void {
    const { app } = this;
    const { event } = app.state;
    const answer = app.ask("tracks", { event, maxBins: TRACK_BINS });
    if (!answer) return;
    const key = JSON.stringify([
      event,
      app.state.threads,
      app.state.range,
      app.isDark,
      answer.weights.length,
      app.names.threads.length,
    ]);
    if (key === this.threadsKey) return;
    this.threadsKey = key;
    const whole = answer.weights.reduce((sum, weight) => sum + weight, 0);
    const busy = ([...answer.weights.keys()] as ThreadIndex[])
      .filter((thread) => answer.weights[thread] > 0)
      .sort((left, right) => answer.weights[right] - answer.weights[left]);
    const rows = busy
      .slice(0, 200)
      .map((thread) =>
        this.track(
          thread,
          answer.weights[thread] / whole,
          answer.busy.subarray(thread * answer.bins, (thread + 1) * answer.bins),
          busy,
        ),
      );
    const all = button(`All ${busy.length} threads`, "Merge all threads", () =>
      app.change({ threads: null, zoom: [] }),
    );
    all.ariaPressed = String(app.state.threads === null);
    this.threads.replaceChildren(all, ...rows);
  }

  private track(thread: ThreadIndex, share: number, busy: Float32Array, all: ThreadIndex[]): HTMLElement {
    const { app } = this;
    const { threads, processes } = app.names;
    const { name, role, tid, process } = threads[thread];
    const owner =
      processes.length > 1
        ? `, ${processes[process]?.name || "process"} ${processes[process]?.pid ?? ""}`
        : "";
    const chosen = app.state.threads;
    const isOn = chosen === null || chosen.includes(thread);
    const box = element("input", { type: "checkbox", checked: isOn });
    box.addEventListener("change", () => {
      const next = new Set(chosen ?? all);
      if (box.checked) next.add(thread);
      else next.delete(thread);
      app.change({
        threads:
          next.size === 0 || next.size === all.length ? null : [...next].sort((left, right) => left - right),
        zoom: [],
      });
    });
    const only = button("only", `Show ${name || tid} alone`, () =>
      app.change({ threads: [thread], zoom: [] }),
    );
    const time = button("time", `Show ${name || tid} in time order`, () =>
      app.change({ view: "time", thread, window: null }),
    );
    const canvas = element("canvas", { className: "spark" });
    canvas.setAttribute("aria-hidden", "true");
    drawSpark(canvas, busy, isOn, app);
    return element(
      "div",
      { className: "track" },
      element(
        "label",
        {},
        box,
        element("b", { textContent: percent(share, 1) }),
        element("bdi", {
          className: "name",
          textContent: name || "(unnamed)",
          title: `${name} ${ROLE_LABELS[role] ?? ""}, tid ${tid}${owner}`,
        }),
        element("span", {
          className: "dim role",
          textContent: `${ROLE_LABELS[role] ?? "other"} ${tid}${owner}`,
        }),
      ),
      only,
      time,
      canvas,
    );
  }
}

function drawSpark(canvas: HTMLCanvasElement, busy: Float32Array, isOn: boolean, app: App): void {
  const height = 20;
  canvas.width = busy.length;
  canvas.height = height;
  const context = canvas.getContext("2d")!;
  context.fillStyle = isOn ? getComputedStyle(document.body).getPropertyValue("--accent").trim() : "#9aa3ad";
  for (let at = 0; at < busy.length; at++) {
    const tall = Math.ceil(busy[at] * height);
    if (tall > 0) context.fillRect(at, height - tall, 1, tall);
  }
  const { range } = app.state;
  if (!range) return;
  context.fillStyle = app.isDark ? "rgb(255 255 255 / 20%)" : "rgb(0 0 0 / 12%)";
  context.fillRect(0, 0, (range.from / app.end) * busy.length, height);
  context.fillRect((range.to / app.end) * busy.length, 0, busy.length, height);
}

// How many rows suit a recording: a short one has little to show and leaves the room to the view.
export function heatRows(durationNs: number): number {
  const length = Math.log(durationNs / SHORT) / Math.log(LONG / SHORT);
  return Math.round(MIN_ROWS + (MAX_ROWS - MIN_ROWS) * Math.max(0, Math.min(1, length)));
}

const maxColumnsIn = (width: number): number => Math.max(30, Math.floor(width / 5 / 50) * 50);

// How much time the heat map shows across its width: whole columns.
function spanOf(end: number, width: number): number {
  const columnNs = columnLength(end, maxColumnsIn(width));
  return Math.max(1, Math.ceil(end / columnNs)) * columnNs;
}

interface Cell {
  column: number;
  row: number;
}

class HeatCanvas {
  readonly root = element("div", { className: "heat", tabIndex: 0 });
  private readonly canvas = element("canvas");
  private readonly axis = element("div", { className: "axis dim" });
  private map: HeatMap | null = null;
  private start: Cell | null = null; // of a drag, or of two clicks
  private cursor: Cell = { column: 0, row: 0 };
  private pending: Range | null = null;
  private painted: { map: HeatMap; isDark: boolean; canvas: HTMLCanvasElement } | null = null;
  private readonly schedule = eachFrame(() => this.draw());

  constructor(
    private readonly app: App,
    private readonly tooltip: Tooltip,
  ) {
    this.root.setAttribute("role", "application");
    this.root.ariaLabel = [
      "Heat map of samples over time.",
      "Drag to choose a range, with Ctrl a second range to compare with.",
      "Arrow keys move, Shift and arrows choose, Escape clears.",
    ].join(" ");
    this.root.append(this.canvas, this.axis);
    this.canvas.style.height = `${this.height}px`; // also before there is anything to draw
    new ResizeObserver(() => this.app.isReady && !this.root.hidden && this.update()).observe(this.root);
    this.listen();
  }

  update(): void {
    const width = this.root.clientWidth;
    if (!width) return;
    // Asked in steps, so that dragging a window's edge does not count again for every pixel.
    const maxColumns = maxColumnsIn(width);
    const { event, threads } = this.app.state;
    const map = this.app.ask("heat", { event, threads, maxColumns, maxRows: heatRows(this.app.end) });
    if (map) this.map = map;
    this.schedule();
  }

  private get height(): number {
    return heatRows(this.app.end) * ROW_PIXELS;
  }

  private get cell(): { width: number; height: number } {
    const { columns, rows } = this.map!;
    return { width: this.root.clientWidth / columns, height: this.height / rows };
  }

  private draw(): void {
    const { map, app } = this;
    if (!map || this.root.hidden) return;
    const ratio = fit(this.canvas, this.root.clientWidth, this.height);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = app.colors.back;
    context.fillRect(0, 0, this.root.clientWidth, this.height);
    const { width, height } = this.cell;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.cells(map), 0, 0, this.root.clientWidth, this.height);
    if (width > 4)
      for (let column = 1; column < map.columns; column++)
        context.fillRect(column * width - 0.5, 0, 0.5, this.height);
    if (app.state.compare && app.state.compare !== "base")
      this.outline(context, app.state.compare, "#d9601a");
    if (app.state.range) this.outline(context, app.state.range, "#1d5fbf");
    if (this.pending) this.outline(context, this.pending, app.colors.text);
    if (document.activeElement === this.root) {
      context.strokeStyle = app.colors.text;
      context.strokeRect(
        this.cursor.column * width,
        this.height - (this.cursor.row + 1) * height,
        width,
        height,
      );
    }
    this.showAxis();
  }

  // The map with a pixel for each cell: drawn larger in one go, where a call for each cell would
  // take longer than everything else the page does at first.
  private cells(map: HeatMap): HTMLCanvasElement {
    const key = this.app.isDark;
    if (this.painted?.map === map && this.painted.isDark === key) return this.painted.canvas;
    const canvas = element("canvas", { width: map.columns, height: map.rows });
    const context = canvas.getContext("2d")!;
    const image = context.createImageData(map.columns, map.rows);
    const pixels = new Uint32Array(image.data.buffer);
    const ramp = RAMPS[key ? 1 : 0];
    for (let column = 0; column < map.columns; column++) {
      for (let row = 0; row < map.rows; row++) {
        const value = map.counts[column * map.rows + row];
        // Time goes upwards within a column, as in FlameScope.
        const at = (map.rows - 1 - row) * map.columns + column;
        if (value > 0) pixels[at] = ramp[Math.round((value / map.largest) * (SHADES - 1))];
      }
    }
    context.putImageData(image, 0, 0);
    this.painted = { map, isDark: key, canvas };
    return canvas;
  }

  // The cells of a range: parts of its first and last columns, all of those between.
  private outline(context: CanvasRenderingContext2D, range: Range, color: string): void {
    const map = this.map!;
    const { width } = this.cell;
    const y = (time: number, column: number) =>
      this.height * (1 - (time - column * map.columnNs) / map.columnNs);
    const first = Math.floor(range.from / map.columnNs);
    const last = Math.min(map.columns - 1, Math.floor((range.to - 1) / map.columnNs));
    context.fillStyle = color;
    context.globalAlpha = 0.22;
    for (let column = first; column <= last; column++) {
      const bottom = column === first ? y(range.from, column) : this.height;
      const top = column === last ? y(range.to, column) : 0;
      context.fillRect(column * width, top, width, bottom - top);
    }
    context.globalAlpha = 1;
    context.fillRect(first * width, 0, 2, this.height);
    context.fillRect((last + 1) * width - 2, 0, 2, this.height);
  }

  private showAxis(): void {
    const map = this.map!;
    const whole = map.columns * map.columnNs;
    const step = tickStep(whole / Math.max(2, Math.floor(this.root.clientWidth / 90)));
    const marks: HTMLElement[] = [];
    // A label that would not fit before the end is left out.
    const last = whole * (1 - AXIS_LABEL_PX / Math.max(AXIS_LABEL_PX, this.root.clientWidth));
    for (let time = 0; time < whole && time <= last; time += step) {
      const mark = element("span", { textContent: moment(time, step) });
      mark.style.left = `${(time / whole) * 100}%`;
      marks.push(mark);
    }
    this.axis.replaceChildren(...marks);
  }

  private cellAt(event: PointerEvent): Cell {
    const map = this.map!;
    const box = this.canvas.getBoundingClientRect();
    const { width, height } = this.cell;
    const within = (value: number, most: number) => Math.max(0, Math.min(most - 1, Math.floor(value)));
    return {
      column: within((event.clientX - box.left) / width, map.columns),
      row: within((this.height - (event.clientY - box.top)) / height, map.rows),
    };
  }

  private timeOf({ column, row }: Cell): number {
    const map = this.map!;
    return column * map.columnNs + (row * map.columnNs) / map.rows;
  }

  private rangeOf(left: Cell, right: Cell): Range {
    const step = this.map!.columnNs / this.map!.rows;
    const [from, to] = [this.timeOf(left), this.timeOf(right)].sort((one, other) => one - other);
    return { from: Math.floor(from), to: Math.min(Math.ceil(to + step), Math.ceil(this.app.end)) };
  }

  private choose(range: Range, isSecond: boolean): void {
    this.pending = null;
    this.start = null;
    this.app.change(isSecond && this.app.state.range ? { compare: range, zoom: [] } : { range, zoom: [] });
  }

  private listen(): void {
    const { canvas } = this;
    let isDrag = false;
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.map || event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const cell = this.cellAt(event);
      if (event.shiftKey && this.app.state.range) return this.choose(this.extended(cell), false);
      if (this.start) {
        this.choose(this.rangeOf(this.start, cell), event.ctrlKey || event.metaKey);
        return;
      }
      this.start = cell;
      isDrag = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.map) return;
      const cell = this.cellAt(event);
      if (this.start) {
        isDrag ||= event.buttons === 1 && (cell.column !== this.start.column || cell.row !== this.start.row);
        this.pending = this.rangeOf(this.start, cell);
        this.schedule();
      }
      const value = this.map.counts[cell.column * this.map.rows + cell.row];
      const step = this.map.columnNs / this.map.rows;
      this.tooltip.showText(
        moment(this.timeOf(cell), step),
        [
          this.map.event.unit === "samples"
            ? ["samples", count(value)]
            : ["weight", weightText(value, this.map.event)],
        ],
        event.clientX,
        event.clientY,
      );
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!this.map || !this.start) return;
      // A click without a drag is the first of two.
      if (isDrag) this.choose(this.rangeOf(this.start, this.cellAt(event)), event.ctrlKey || event.metaKey);
      isDrag = false;
    });
    canvas.addEventListener("pointerleave", () => this.tooltip.hide());
    this.root.addEventListener("focus", this.schedule);
    this.root.addEventListener("blur", this.schedule);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
  }

  private extended(cell: Cell): Range {
    const { from, to } = this.app.state.range!;
    const other = this.rangeOf(cell, cell);
    return { from: Math.min(from, other.from), to: Math.max(to, other.to) };
  }

  private onKey(event: KeyboardEvent): void {
    const { map, cursor } = this;
    if (!map) return;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
    };
    const move = moves[event.key];
    if (move) {
      if (event.shiftKey) this.start ??= { ...cursor };
      this.cursor = {
        column: Math.max(0, Math.min(map.columns - 1, cursor.column + move[0])),
        row: Math.max(0, Math.min(map.rows - 1, cursor.row + move[1])),
      };
      if (event.shiftKey) this.pending = this.rangeOf(this.start!, this.cursor);
      const { column, row } = this.cursor;
      const at = moment(this.timeOf(this.cursor), map.columnNs / map.rows);
      this.app.say(`${at}: ${weightText(map.counts[column * map.rows + row], map.event)}`);
    } else if (event.key === "Enter" && this.pending) {
      this.choose(this.pending, event.ctrlKey || event.metaKey);
    } else if (event.key === "Escape") {
      if (!this.pending && !this.start) this.app.change({ range: null, compare: null });
      this.pending = this.start = null;
    } else return;
    this.schedule();
    event.preventDefault();
    event.stopPropagation();
  }
}

// From the page's own colour to a quiet clay, by lightness above all: a process that is always busy fills the
// whole map. Few samples are already told apart from none.
const SHADES = 48;
const RAMPS = [false, true].map((isDark) =>
  Array.from({ length: SHADES }, (_, at) => {
    const value = 0.12 + (0.88 * at) / (SHADES - 1);
    return isDark
      ? hslPixel(22 + value * 10, 0.25 + value * 0.13, 0.14 + value * 0.34)
      : hslPixel(32 - value * 14, 0.55, 0.95 - value * 0.39);
  }),
);
