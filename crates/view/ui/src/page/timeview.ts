// Time order: what one thread did, from left to right.

import { NO_THREAD, type ThreadIndex } from "../model/indexes";
import { ROLE_LABELS, ThreadRole } from "../model/tables";
import type { Timeline } from "../model/timeline";
import type { Range } from "../model/tree";
import type { App, Panel, Target } from "./app";
import { cssPixel, HIT, inkOn, packed } from "./colors";
import { button, eachFrame, element, fit } from "./dom";
import { ROW } from "./flame";
import { Labels } from "./labels";
import type { Menu } from "./menu";
import { TRACK_BINS } from "./overview";
import type { Tooltip } from "./tooltip";
import { duration, moment, tickStep } from "./words";

const AXIS = 18;

export class TimeView implements Panel {
  readonly root = element("section", { id: "time", className: "view" });
  private readonly bar = element("div", { className: "view-bar" });
  private readonly scroller = element("div", { className: "flame-scroller", tabIndex: 0 });
  private readonly spacer = element("div", { className: "flame-spacer" });
  private readonly canvas = element("canvas");
  private readonly context = this.canvas.getContext("2d")!;
  private readonly labels: Labels;
  private drawn: { thread: ThreadIndex; timeline: Timeline } | null = null;
  private hover = -1;
  private selected = -1;
  private barKey = "";
  private readonly schedule = eachFrame(() => this.draw());

  constructor(
    private readonly app: App,
    private readonly tooltip: Tooltip,
    private readonly menu: Menu,
  ) {
    this.labels = new Labels(this.context, app.names);
    this.scroller.setAttribute("role", "application");
    this.scroller.ariaLabel = "Time order. Plus and minus zoom, a and d move, 0 shows all.";
    this.spacer.append(element("div", { className: "flame-stage" }, this.canvas));
    this.scroller.append(this.spacer);
    this.root.append(this.bar, this.scroller);
    this.scroller.addEventListener("scroll", this.schedule);
    new ResizeObserver(() => this.app.isReady && this.update()).observe(this.scroller);
    this.listen();
  }

  // The chosen thread, or the busiest of those in the selection.
  private get thread(): ThreadIndex {
    const { state, names } = this.app;
    if (state.thread >= 0) return state.thread;
    if (state.threads?.length) return state.threads[0];
    const weights = this.app.ask("tracks", { event: this.app.state.event, maxBins: TRACK_BINS })?.weights;
    if (!weights) return NO_THREAD;
    const isLoop = (at: ThreadIndex) => {
      const role = names.threads[at]?.role;
      return role === ThreadRole.Main || role === ThreadRole.Worker;
    };
    const busiest = (only: (at: ThreadIndex) => boolean) =>
      ([...weights.keys()] as ThreadIndex[])
        .filter((at) => weights[at] > 0 && only(at))
        .sort((left, right) => weights[right] - weights[left])[0];
    return busiest(isLoop) ?? busiest(() => true) ?? (0 as ThreadIndex);
  }

  private get timeline(): Timeline | null {
    return this.drawn?.timeline ?? null;
  }

  private get window(): Range {
    return this.app.state.window ?? this.app.range;
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.state.view !== "time";
    if (this.root.hidden || !app.isReady) return;
    this.scroller.hidden = app.end < 2; // such as folded stacks
    if (this.scroller.hidden) {
      this.bar.replaceChildren(
        element("p", {
          className: "empty",
          textContent: "This recording has no sample times.",
        }),
      );
      return;
    }
    const { thread } = this;
    if (thread < 0) return;
    const { from, to } = this.window;
    const columns = Math.max(50, this.scroller.clientWidth);
    // Time order shows one moment after the other: neither a range nor other threads change it.
    const selection = { ...app.selection(), range: null, compare: null, threads: null };
    const timeline = app.ask("timeline", { selection, thread, from, to, columns });
    // Boxes stay in sight while others are counted, moved with the window, but not those of another
    // thread under this one's name.
    const before = this.timeline;
    if (timeline) this.drawn = { thread, timeline };
    else if (this.drawn?.thread !== thread) this.drawn = null;
    if (this.timeline !== before) this.hover = this.selected = -1;
    this.labels.use(app.names);
    this.showBar(thread);
    const rows = (this.timeline?.rows ?? 0) * ROW + AXIS + 4;
    this.spacer.style.height = `${Math.max(rows, this.scroller.clientHeight)}px`;
    this.schedule();
  }

  private showBar(thread: ThreadIndex): void {
    const { app } = this;
    const { from, to } = this.window;
    const key = JSON.stringify([thread, from, to, this.timeline?.isSampled, app.names.threads.length]);
    if (key === this.barKey) return;
    this.barKey = key;
    const weights = app.ask("tracks", { event: app.state.event, maxBins: TRACK_BINS })?.weights;
    const known = app.names.threads
      .map((_, at) => at as ThreadIndex)
      .filter((at) => at === thread || !weights || weights[at] > 0);
    if (weights) known.sort((left, right) => weights[right] - weights[left]);
    const picker = element(
      "select",
      { id: "time-thread" },
      ...known.slice(0, 500).map((at) => {
        const { name, role, tid } = app.names.threads[at];
        return element("option", {
          value: String(at),
          textContent: `${name || "(unnamed)"} · ${ROLE_LABELS[role] ?? "other"} ${tid}`.slice(0, 80),
          selected: at === thread,
        });
      }),
    );
    picker.addEventListener("change", () =>
      app.change({ thread: Number(picker.value) as ThreadIndex, window: null }),
    );
    const step = (to - from) / 20;
    this.bar.replaceChildren(
      element("label", {}, "Thread ", picker),
      element("span", {
        className: "dim",
        textContent: `${moment(from, step)} – ${moment(to, step)} (${duration(to - from)})`,
      }),
      button("Count only this time", "Every other view shows this part alone", () =>
        app.change({ range: { from: Math.floor(from), to: Math.ceil(to) } }),
      ),
      ...(this.timeline?.isSampled
        ? [element("span", { className: "dim", textContent: "one sample drawn per pixel; zoom in for all" })]
        : []),
    );
  }

  private draw(): void {
    const { timeline, app, context, scroller } = this;
    const [width, height] = [scroller.clientWidth, scroller.clientHeight];
    if (!width || !height) return;
    const ratio = fit(this.canvas, width, height);
    const colors = app.colors;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colors.back;
    context.fillRect(0, 0, width, height);
    context.font = `12px ${getComputedStyle(scroller).fontFamily}`;
    context.textBaseline = "middle";
    if (timeline) this.drawBoxes(timeline, width, height);
    this.drawAxis(width, colors);
  }

  private drawBoxes(timeline: Timeline, width: number, height: number): void {
    const { app, context, scroller } = this;
    const { colors } = app;
    const { from, to } = this.window;
    const scale = width / (to - from);
    const { paint, faded } = app.paint();
    const { hits, heat } = app;
    const marked =
      this.hover >= 0 ? timeline.fn[this.hover] : this.selected >= 0 ? timeline.fn[this.selected] : null;
    for (let at = 0; at < timeline.fn.length; at++) {
      const y = AXIS + timeline.depth[at] * ROW - scroller.scrollTop;
      if (y + ROW < AXIS || y > height) continue;
      const left = Math.max(0, (timeline.from[at] - from) * scale);
      const right = Math.min(width, (timeline.to[at] - from) * scale);
      if (right <= left) continue;
      const fn = timeline.fn[at];
      const isHit = hits !== null && fn >= 0 && hits[fn] === 1;
      const fill = isHit ? packed(HIT) : !hits && heat ? heat.at(fn)! : (hits ? faded : paint).pixel(fn, 0);
      context.fillStyle = cssPixel(fill);
      context.fillRect(left, y, Math.max(0.6, right - left - (right - left > 3 ? 1 : 0)), ROW - 1);
      if (fn === marked && right - left > 2) {
        context.strokeStyle = colors.text;
        context.strokeRect(left + 0.5, y + 0.5, right - left - 2, ROW - 2);
      }
      if (right - left < 22) continue;
      context.fillStyle = isHit ? "#fff" : hits ? colors.text : inkOn(fill);
      this.labels.draw(fn, left + 4, y + (ROW - 1) / 2, right - left - 7, "", true);
    }
  }

  private drawAxis(width: number, colors: { back: string; rest: string; text: string }): void {
    const { from, to } = this.window;
    const { context } = this;
    context.fillStyle = colors.back;
    context.fillRect(0, 0, width, AXIS);
    const step = tickStep((to - from) / Math.max(2, Math.floor(width / 130)));
    for (let time = Math.ceil(from / step) * step; time < to; time += step) {
      const x = ((time - from) / (to - from)) * width;
      context.fillStyle = colors.rest;
      context.fillRect(x, 0, 1, AXIS);
      context.fillStyle = colors.text;
      context.globalAlpha = 0.75;
      context.fillText(moment(time, step), x + 4, AXIS / 2);
      context.globalAlpha = 1;
    }
  }

  private boxAt(event: MouseEvent): number {
    const { timeline } = this;
    if (!timeline) return -1;
    const box = this.canvas.getBoundingClientRect();
    const depth = Math.floor((event.clientY - box.top + this.scroller.scrollTop - AXIS) / ROW);
    const { from, to } = this.window;
    const time = from + ((event.clientX - box.left) / box.width) * (to - from);
    for (let at = 0; at < timeline.fn.length; at++) {
      if (timeline.depth[at] === depth && timeline.from[at] <= time && time < timeline.to[at]) return at;
    }
    return -1;
  }

  target(): Target | null {
    const at = this.hover >= 0 ? this.hover : this.selected;
    return at < 0 || !this.timeline ? null : { fn: this.timeline.fn[at], path: null };
  }

  private zoomAt(place: number, factor: number): void {
    const { from, to } = this.window;
    const middle = from + (to - from) * place;
    this.setWindow(middle - (middle - from) / factor, middle + (to - middle) / factor);
  }

  private setWindow(from: number, to: number): void {
    const whole = this.app.range;
    const length = Math.min(Math.max(to - from, 1e4), whole.to - whole.from);
    const start = Math.max(whole.from, Math.min(whole.to - length, from));
    const isAll = length >= (whole.to - whole.from) * 0.9999;
    this.app.change(
      { window: isAll ? null : { from: Math.round(start), to: Math.round(start + length) } },
      false,
    );
  }

  private pan(share: number): void {
    const { from, to } = this.window;
    this.setWindow(from + (to - from) * share, to + (to - from) * share);
  }

  key(event: KeyboardEvent): boolean {
    const walks: Record<string, () => void> = {
      "+": () => this.zoomAt(0.5, 1.6),
      "=": () => this.zoomAt(0.5, 1.6),
      w: () => this.zoomAt(0.5, 1.6),
      "-": () => this.zoomAt(0.5, 1 / 1.6),
      a: () => this.pan(-0.2),
      d: () => this.pan(0.2),
      ArrowLeft: () => this.pan(-0.1),
      ArrowRight: () => this.pan(0.1),
      Enter: () => this.fitBox(this.selected),
      Home: () => this.setWindow(0, this.window.to - this.window.from),
    };
    walks[event.key]?.();
    return event.key in walks;
  }

  private fitBox(at: number): void {
    const { timeline } = this;
    if (!timeline || at < 0) return;
    this.setWindow(timeline.from[at], timeline.to[at]);
  }

  private listen(): void {
    const { canvas } = this;
    let drag: { x: number; isMoved: boolean } | null = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button === 0) drag = { x: event.clientX, isMoved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        if (Math.abs(event.clientX - drag.x) > 4) drag.isMoved = true;
        if (drag.isMoved) {
          canvas.setPointerCapture(event.pointerId);
          this.pan((drag.x - event.clientX) / this.scroller.clientWidth);
          drag.x = event.clientX;
          this.tooltip.hide();
          return;
        }
      }
      const at = this.boxAt(event);
      if (at !== this.hover) {
        this.hover = at;
        this.schedule();
      }
      if (at < 0) return this.tooltip.hide();
      const { from, to, fn } = this.timeline!;
      this.tooltip.showFunction(
        fn[at],
        [
          ["lasts", duration(to[at] - from[at])],
          ["from", moment(from[at], 1e5)],
        ],
        event.clientX,
        event.clientY,
      );
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.isMoved) {
        this.selected = this.boxAt(event);
        if (this.selected >= 0) {
          const { fn, from, to } = this.timeline!;
          const length = duration(to[this.selected] - from[this.selected]);
          this.app.say(`${this.app.nameOf(fn[this.selected])}: ${length}`);
        }
        this.schedule();
      }
      drag = null;
    });
    canvas.addEventListener("dblclick", (event) => this.fitBox(this.boxAt(event)));
    canvas.addEventListener("pointerleave", () => {
      this.hover = -1;
      this.tooltip.hide();
      this.schedule();
    });
    canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.selected = this.boxAt(event);
      this.menu.open(this.target(), event.clientX, event.clientY);
    });
    this.scroller.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          const box = canvas.getBoundingClientRect();
          this.zoomAt((event.clientX - box.left) / box.width, Math.exp(-event.deltaY * 0.004));
        } else if (event.deltaX !== 0) this.pan(event.deltaX / this.scroller.clientWidth);
        else return;
        event.preventDefault();
      },
      { passive: false },
    );
  }
}
