// A track: its name and figures at the left, what it shows over time at the right.

import type { ThreadIndex } from "../model/indexes";
import { State, type StateKind } from "../model/states";
import type { Range } from "../model/tree";
import { type GcPause, rangeOfPause, type Stall } from "../model/watched";
import type { App } from "./app";
import { stateFill } from "./colors";
import { button, element, fit } from "./dom";
import type { Tooltip } from "./tooltip";
import { duration, moment } from "./words";

export interface Figure {
  text: string;
  title: string;
  onClick?: () => void;
}

export interface Brush {
  context: CanvasRenderingContext2D;
  x: (ns: number) => number;
  height: number;
  color: (variable: string) => string;
  pattern: (kind: StateKind, waitPlace: number) => CanvasPattern | string;
}

export interface LaneContent {
  id: string;
  kind: "loop" | "pool" | "thread";
  name: string;
  hint: string;
  figures: Figure[];
  height: number;
  thread: ThreadIndex;
  onName: (() => void) | null;
  stalls: (Stall & { range: Range })[];
  pauses: GcPause[]; // marks along the lower edge
  paint: (brush: Brush) => void;
  tip: (ns: number) => [string, string][];
  stallTip?: (stall: Stall) => Promise<[string, string][]>;
}

const MIN_STALL_PIXELS = 3;
const NEAR_PIXELS = 4;
const DRAG_PIXELS = 3;
const PAUSE_PIXELS = 6; // high; a mark is found a little above it, too

export class LaneCanvas {
  readonly root: HTMLElement;
  private readonly canvas = element("canvas", { tabIndex: 0 });
  private drag: { from: number; x: number; isDrag: boolean } | null = null;
  private pending: Range | null = null;
  private pixelsANs = 0; // of the last drawing
  private stallAt = -1; // under the pointer, or chosen by keys
  private pauseAt = -1; // under the pointer

  constructor(
    private readonly app: App,
    private readonly tooltip: Tooltip,
    private readonly spanOf: (width: number) => number,
    readonly content: LaneContent,
  ) {
    const { name, hint, figures, onName, kind, id, height } = content;
    const label = onName
      ? button(name, `${hint}. Click to see its samples alone`, onName)
      : element("span", {});
    if (onName) label.className = "lead";
    else Object.assign(label, { textContent: name, title: hint });
    label.classList.add("lane-name");
    const shown = figures.map(({ text, title, onClick }) => {
      const made = onClick ? button(text, title, onClick) : element("span", { textContent: text, title });
      if (onClick) made.className = "lead";
      made.classList.add("figure");
      return made;
    });
    this.canvas.setAttribute("role", "application");
    this.canvas.ariaLabel = `${hint}. Drag to choose a range.${
      content.stalls.length ? " Left and right go from stall to stall, Enter shows one." : ""
    }`;
    this.canvas.style.height = `${height}px`;
    this.root = element(
      "div",
      { className: `lane lane-${kind}`, id: `lane-${id}` },
      element("div", { className: "lane-label" }, label, ...shown),
      element("div", { className: "lane-canvas" }, this.canvas),
    );
    this.listen();
  }

  private get width(): number {
    return this.canvas.parentElement!.clientWidth;
  }

  private x(ns: number): number {
    return ns * this.pixelsANs;
  }

  draw(): void {
    const { app, content, width } = this;
    const { height } = content;
    if (!width) return;
    this.pixelsANs = width / this.spanOf(width);
    const ratio = fit(this.canvas, width, height);
    const context = this.canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.body);
    const known = new Map<string, string>(); // a question for each of a thousand stalls takes long
    const color = (variable: string) => {
      let value = known.get(variable);
      if (value === undefined) known.set(variable, (value = style.getPropertyValue(variable).trim()));
      return value;
    };
    context.fillStyle = color("--panel");
    context.fillRect(0, 0, width, height);
    const x = (ns: number) => this.x(ns);
    const pattern = (kind: StateKind, waitPlace: number) =>
      patternOf(context, kind, stateFill(kind, waitPlace));
    content.paint({ context, x, height, color, pattern });
    content.pauses.forEach((pause, at) => this.drawPause(context, pause, at === this.pauseAt));
    content.stalls.forEach((stall, at) => this.drawStall(context, stall, at === this.stallAt, color));
    const range = this.pending ?? app.state.range;
    if (!range) return;
    context.fillStyle = app.isDark ? "rgb(0 0 0 / 55%)" : "rgb(255 255 255 / 62%)";
    context.fillRect(0, 0, x(range.from), height);
    context.fillRect(x(range.to), 0, width, height);
    context.fillStyle = color("--accent");
    for (const edge of [x(range.from), x(range.to)]) context.fillRect(edge - 0.5, 0, 1, height);
  }

  // A mark in the page's own colour stands above it, for readers who see no colours.
  private drawStall(
    context: CanvasRenderingContext2D,
    stall: Stall,
    isChosen: boolean,
    color: (variable: string) => string,
  ): void {
    const { height } = this.content;
    const [from, to] = this.placeOf(stall);
    context.fillStyle = color("--stall");
    context.globalAlpha = isChosen ? 0.7 : 0.4;
    context.fillRect(from, 0, to - from, height);
    context.globalAlpha = 1;
    context.fillRect(from, 0, to - from, 3);
    context.fillStyle = color("--text");
    const middle = (from + to) / 2;
    context.beginPath();
    context.moveTo(middle - 4, 0);
    context.lineTo(middle + 4, 0);
    context.lineTo(middle, 5);
    context.fill();
  }

  private drawPause(context: CanvasRenderingContext2D, pause: GcPause, isChosen: boolean): void {
    const { height } = this.content;
    const from = this.x(pause.start);
    const tall = isChosen ? PAUSE_PIXELS + 3 : PAUSE_PIXELS;
    context.fillStyle = stateFill({ state: State.Gc, wait: "" }, 0);
    context.fillRect(from, height - tall, Math.max(1, this.x(pause.lasted)), tall);
  }

  // The pause whose mark is at or near a place; of several the nearest, of equally near ones the longest.
  private pauseNear(x: number, y: number): number {
    const { pauses, height } = this.content;
    if (y < height - PAUSE_PIXELS - 3) return -1;
    let [found, best] = [-1, NEAR_PIXELS];
    pauses.forEach((pause, at) => {
      const away = Math.max(0, this.x(pause.start) - x, x - this.x(pause.start + pause.lasted));
      const isLonger = away === best && found >= 0 && pause.lasted > pauses[found].lasted;
      if (away < best || isLonger) [found, best] = [at, away];
    });
    return found;
  }

  private placeOf({ start, lasted }: Stall): [number, number] {
    const from = this.x(start);
    return [from, Math.max(from + MIN_STALL_PIXELS, this.x(start + lasted))];
  }

  // The stall at or near a place; of several the nearest.
  private stallNear(x: number): number {
    let [found, best] = [-1, NEAR_PIXELS];
    this.content.stalls.forEach((stall, at) => {
      const [from, to] = this.placeOf(stall);
      const away = Math.max(0, from - x, x - to);
      if (away < best || (away === 0 && best > 0)) [found, best] = [at, away];
    });
    return found;
  }

  private timeAt(x: number): number {
    const time = (Math.max(0, Math.min(this.width, x)) / this.width) * this.spanOf(this.width);
    return Math.min(time, this.app.end);
  }

  private listen(): void {
    const { canvas, app } = this;
    const xOf = (event: PointerEvent) => event.clientX - canvas.getBoundingClientRect().left;
    const yOf = (event: PointerEvent) => event.clientY - canvas.getBoundingClientRect().top;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = { from: this.timeAt(xOf(event)), x: xOf(event), isDrag: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const x = xOf(event);
      if (this.drag) {
        this.drag.isDrag ||= Math.abs(x - this.drag.x) > DRAG_PIXELS;
        if (this.drag.isDrag) this.pending = this.rangeTo(this.timeAt(x));
      }
      this.pauseAt = this.drag?.isDrag ? -1 : this.pauseNear(x, yOf(event));
      this.stallAt = this.drag?.isDrag || this.pauseAt >= 0 ? -1 : this.stallNear(x);
      canvas.classList.toggle("on-stall", this.stallAt >= 0 || this.pauseAt >= 0);
      this.draw();
      this.tip(x, event.clientX, event.clientY);
    });
    canvas.addEventListener("pointerup", (event) => {
      const { drag, pending } = this;
      this.drag = this.pending = null;
      if (!drag) return;
      if (pending) return this.choose(pending, event.ctrlKey || event.metaKey);
      const pause = this.content.pauses[this.pauseNear(xOf(event), yOf(event))];
      if (pause) return app.choose(rangeOfPause(pause), [this.content.thread]);
      const stall = this.content.stalls[this.stallNear(xOf(event))];
      if (stall) app.choose(stall.range, [this.content.thread]);
    });
    canvas.addEventListener("pointerleave", () => {
      this.tooltip.hide();
      if (this.drag) return;
      this.stallAt = this.pauseAt = -1;
      this.draw();
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  private choose(range: Range, isSecond: boolean): void {
    const { app } = this;
    app.change(isSecond && app.state.range ? { compare: range, zoom: [] } : { range, zoom: [] });
  }

  private rangeTo(time: number): Range {
    const [from, to] = [this.drag!.from, time].sort((one, other) => one - other);
    return { from: Math.floor(from), to: Math.max(Math.ceil(to), Math.floor(from) + 1) };
  }

  private tip(x: number, clientX: number, clientY: number): void {
    const { content, stallAt, pauseAt } = this;
    const pause = content.pauses[pauseAt];
    if (pause) {
      const title = `GC pause of ${duration(pause.lasted)} at ${moment(pause.start, 1e6)}`;
      const rows: [string, string][] = [
        ["collection", pause.kind],
        ["click", "shows what was sampled meanwhile"],
      ];
      this.tooltip.showText(title, rows, clientX, clientY);
      return;
    }
    const stall = content.stalls[stallAt];
    if (!stall) {
      const step = this.spanOf(this.width) / this.width;
      this.tooltip.showText(
        `${content.name} at ${moment(this.timeAt(x), step)}`,
        content.tip(this.timeAt(x)),
        clientX,
        clientY,
      );
      return;
    }
    const title = `stall of ${duration(stall.lasted)} or more at ${moment(stall.start, 1e7)}`;
    const rows: [string, string][] = [["click", "shows what the thread did meanwhile"]];
    this.tooltip.showText(title, rows, clientX, clientY);
    void content.stallTip?.(stall).then((more) => {
      if (this.stallAt === stallAt) this.tooltip.showText(title, [...more, ...rows], clientX, clientY);
    });
  }

  private onKey(event: KeyboardEvent): void {
    const { stalls, thread } = this.content;
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step && stalls.length) {
      this.stallAt = Math.max(0, Math.min(stalls.length - 1, this.stallAt + step));
      const stall = stalls[this.stallAt];
      const what = `${duration(stall.lasted)} at ${moment(stall.start, 1e7)}`;
      this.app.say(`stall ${this.stallAt + 1} of ${stalls.length}: ${what}`);
      this.draw();
    } else if (event.key === "Enter" && stalls[this.stallAt]) {
      this.app.choose(stalls[this.stallAt].range, [thread]);
    } else if (event.key === "Escape" && this.app.state.range) {
      this.app.change({ range: null, compare: null });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Marks it for a moment.
  flash(): void {
    this.root.classList.remove("flash");
    void this.root.offsetWidth; // starts the animation anew
    this.root.classList.add("flash");
  }
}

const patterns = new Map<string, CanvasPattern>();

// Waits are hatched, and what had no CPU is striped, so that they are told apart without colours.
function patternOf(
  context: CanvasRenderingContext2D,
  { state }: StateKind,
  fill: string,
): CanvasPattern | string {
  if (state !== State.Waiting && state !== State.Runnable) return fill;
  const key = `${state} ${fill}`;
  const known = patterns.get(key);
  if (known) return known;
  const tile = element("canvas", { width: 6, height: 6 });
  const drawn = tile.getContext("2d")!;
  drawn.fillStyle = fill;
  drawn.fillRect(0, 0, 6, 6);
  drawn.strokeStyle = "rgb(255 255 255 / 45%)";
  drawn.lineWidth = 1.4;
  drawn.beginPath();
  if (state === State.Runnable) {
    drawn.moveTo(3, 0);
    drawn.lineTo(3, 6);
  } else {
    for (const from of [-6, 0, 6]) {
      drawn.moveTo(from, 6);
      drawn.lineTo(from + 6, 0);
    }
  }
  drawn.stroke();
  const made = context.createPattern(tile, "repeat");
  if (!made) return fill;
  patterns.set(key, made);
  return made;
}
