// Over time, below the heat map: how much event loops and pools had to do, and what threads did. Time is
// chosen here as in the heat map; a stall leads to its time.

import type { Bands, Culprit } from "../model/bands";
import { NO_THREAD, type ThreadIndex } from "../model/indexes";
import { poolThreads } from "../model/profile";
import { kindLabel, STATE_LABELS, STATES, State, type StateKind } from "../model/states";
import { ROLE_LABELS, ThreadRole } from "../model/tables";
import {
  type GcPause,
  type LoopTimeline,
  longestOf,
  type PoolTimeline,
  rangeOf,
  rangeOfPause,
  type Stall,
} from "../model/watched";
import type { App } from "./app";
import { stateFill } from "./colors";
import { button, eachFrame, element, swatch } from "./dom";
import { type Figure, LaneCanvas, type LaneContent } from "./lane";
import type { Tooltip } from "./tooltip";
import { count, counted, duration, percent } from "./words";

export const BAND_BINS = 600;
const MAX_BANDS = 4; // at first; the others on demand
const MAX_ALL_BANDS = 64;
const MAX_FIGURES = 2;
const MAX_LOOPS = 2; // and as many pools
const MAX_ALL_LOOPS = 64;

export class Lanes {
  readonly root = element("div", { className: "lanes", hidden: true });
  private readonly rows = element("div", { className: "lane-rows" });
  private readonly legend = element("div", { className: "lane-legend" });
  private lanes: LaneCanvas[] = [];
  private isAll = false;
  private others: HTMLElement | null = null; // shows the tracks that are not shown
  private key = "";
  private readonly schedule = eachFrame(() => {
    for (const lane of this.lanes) lane.draw();
  });
  private readonly culprits = new Map<string, Promise<Culprit>>();

  constructor(
    private readonly app: App,
    private readonly tooltip: Tooltip,
    private readonly spanOf: (width: number) => number, // ns across the width
  ) {
    this.root.append(this.rows, this.legend);
    new ResizeObserver(() => this.schedule()).observe(this.rows);
  }

  // Whether there is anything to show.
  get isThere(): boolean {
    const { watched, states } = this.app;
    return watched.loops.length > 0 || watched.pools.length > 0 || states.length > 0;
  }

  update(): void {
    const { app } = this;
    const { watched, states, state } = app;
    const bands = app.ask("bands", {
      maxBins: BAND_BINS,
      maxThreads: this.isAll ? MAX_ALL_BANDS : MAX_BANDS,
    });
    if (!bands) return;
    const key = JSON.stringify([this.isAll, watched.loops.length, bands.threads, state.only, app.isDark]);
    if (key !== this.key) {
      this.key = key;
      this.culprits.clear();
      this.build(bands);
      this.showLegend(states.length ? bands.kinds : [], bands);
    }
    this.schedule();
    if (app.track) {
      this.reveal(app.track);
      app.track = "";
    }
  }

  private build(bands: Bands): void {
    const { loops, pools } = this.app.watched;
    const most = this.isAll ? MAX_ALL_LOOPS : MAX_LOOPS;
    const used = ({ summary }: LoopTimeline) => (summary ? 1 - summary.idle / summary.watched : 0);
    const isMain = ({ thread }: LoopTimeline) => this.app.names.threads[thread].role === ThreadRole.Main;
    const byUse = loops
      .map((loop, at) => ({ loop, at }))
      .sort(
        (left, right) =>
          Number(isMain(right.loop)) - Number(isMain(left.loop)) || used(right.loop) - used(left.loop),
      );
    const contents = [
      ...byUse.slice(0, most).map(({ loop, at }) => this.loop(loop, at, bands)),
      ...pools.slice(0, most).map((pool) => this.pool(pool)),
      ...bands.threads.map((thread, at) => this.band(thread, at, bands)),
    ];
    this.lanes = contents.map((content) => new LaneCanvas(this.app, this.tooltip, this.spanOf, content));
    const left =
      Math.max(0, loops.length - most) +
      Math.max(0, pools.length - most) +
      bands.known -
      bands.threads.length;
    this.rows.replaceChildren(...this.lanes.map(({ root }) => root));
    this.others = left > 0 || this.isAll ? this.more(left) : null;
  }

  private more(left: number): HTMLElement {
    const made = button(
      this.isAll ? "Fewer tracks" : `${count(left)} more`,
      this.isAll ? "Show the busiest alone" : "Show the tracks of the others, too",
      () => {
        this.isAll = !this.isAll;
        this.update();
      },
    );
    made.className = "lane-more lead";
    return made;
  }

  private threadName(thread: ThreadIndex): string {
    const { names } = this.app;
    const { name, role, tid } = names.threads[thread];
    if (role !== ThreadRole.Main) return name || `${ROLE_LABELS[role]} ${tid}`;
    return names.processes.length > 1 ? `main ${tid}` : "main thread";
  }

  private loopName(thread: ThreadIndex): string {
    const { names } = this.app;
    const { role, tid } = names.threads[thread];
    // Short, because figures stand beside it.
    const isMainOfSeveral = role === ThreadRole.Main && names.processes.length > 1;
    return isMainOfSeveral ? `loop ${tid}` : `loop, ${this.threadName(thread)}`;
  }

  private whose(thread: ThreadIndex): string {
    const { names } = this.app;
    const { process, tid } = names.threads[thread];
    const owner = names.processes[process];
    return names.processes.length > 1 && owner ? `${owner.name || "process"} ${owner.pid}` : `tid ${tid}`;
  }

  private loop(loop: LoopTimeline, at: number, bands: Bands): LaneContent {
    const { app } = this;
    const { watched, busy, first, lengthNs, stalls, pauses, summary, thread } = loop;
    const isOne = app.watched.loops.length === 1;
    const shareAt = (ns: number) => {
      const row = Math.floor(ns / lengthNs) - first;
      return watched[row] > 0 ? busy[row] / watched[row] : null;
    };
    const gcAt = (ns: number) => bands.gc[(at * bands.bins + Math.min(bands.bins - 1, ns / bands.binNs)) | 0];
    const longest = longestOf(stalls);
    const figures: Figure[] = [];
    if (summary)
      figures.push({
        text: percent(summary.watched - summary.idle, summary.watched),
        title: "How much of the time the loop was away from poll: its utilisation",
      });
    if (longest)
      figures.push({
        text: counted(stalls.length, "stall"),
        title: `The longest: ${duration(longest.lasted)}. Click to see it`,
        onClick: () => app.choose(rangeOf(longest, app.end), [thread]),
      });
    if (pauses.length) figures.push(this.pauseFigure(thread, pauses));
    return {
      id: `loop-${thread}`,
      kind: "loop",
      name: isOne ? "event loop" : this.loopName(thread),
      hint: `Utilisation of the event loop of ${this.threadName(thread)}, ${this.whose(thread)}`,
      figures,
      height: 22,
      thread,
      onName: () => app.choose(null, [thread]),
      stalls: stalls.map((stall) => ({ ...stall, range: rangeOf(stall, app.end) })),
      pauses,
      paint: ({ context, x, height, color }) => {
        const unknown = first * lengthNs;
        context.fillStyle = color("--line");
        for (let at = 0; at < x(unknown) - 4; at += 6) context.fillRect(at, height / 2, 2, 1);
        context.fillStyle = color("--accent");
        context.globalAlpha = app.isDark ? 0.5 : 0.75;
        for (let row = 0; row < watched.length; row++) {
          if (!watched[row]) continue;
          const tall = Math.min(1, busy[row] / watched[row]) * (height - 2);
          const from = x((first + row) * lengthNs);
          const to = x((first + row + 1) * lengthNs);
          context.fillRect(from, height - tall, Math.max(0.6, to - from), tall);
        }
        context.fillStyle = stateFill({ state: State.Gc, wait: "" }, 0);
        // Where pauses were measured they are marked instead.
        for (let bin = 0; bin < bands.bins && !pauses.length; bin++) {
          const share = bands.gc[at * bands.bins + bin];
          if (share < 0.01) continue;
          context.globalAlpha = 0.4 + 0.6 * Math.min(1, share);
          const from = x(bin * bands.binNs);
          context.fillRect(from, height - 3, Math.max(1, x((bin + 1) * bands.binNs) - from), 3);
        }
        context.globalAlpha = 1;
      },
      tip: (ns) => {
        const share = shareAt(ns);
        const rows: [string, string][] = [
          ["utilisation", share === null ? "not watched" : percent(share, 1)],
        ];
        if (gcAt(ns) > 0 && !pauses.length) rows.push(["GC", percent(Math.min(1, gcAt(ns)), 1)]);
        return rows;
      },
      stallTip: (stall) => this.stallTip(thread, stall),
    };
  }

  private pauseFigure(thread: ThreadIndex, pauses: GcPause[]): Figure {
    const longest = longestOf(pauses) ?? pauses[0];
    return {
      text: counted(pauses.length, "GC pause"),
      title: `The longest: ${longest.kind}, ${duration(longest.lasted)}. Click to see it`,
      onClick: () => this.app.choose(rangeOfPause(longest), [thread]),
    };
  }

  // What is known of a stall at once, and what its samples say a moment later.
  private stallTip(thread: ThreadIndex, stall: Stall): Promise<[string, string][]> {
    const { app } = this;
    const range = rangeOf(stall, app.end);
    const ask = { event: app.state.event, thread, ...range };
    const key = JSON.stringify(ask);
    let asked = this.culprits.get(key);
    if (!asked) this.culprits.set(key, (asked = app.client.ask("culprit", ask)));
    return asked.then(({ fn, share, wait }) => {
      if (fn < 0) return [["function", "not sampled"]];
      const rows: [string, string][] = [
        ["function", `${app.nameOf(fn as never)}, ${percent(share, 1)} of its samples`],
      ];
      if (wait) rows.push(["waits for", wait]);
      return rows;
    });
  }

  private pool(pool: PoolTimeline): LaneContent {
    const { app } = this;
    const { readings, busy, waiting, first, lengthNs, process } = pool;
    const sum = (values: Float64Array) => values.reduce((all, value) => all + value, 0);
    const all = sum(readings) || 1;
    // Looks are a little more than an interval apart: one without any is like the one before.
    const seenAt = lastSeen(readings);
    const perLook = (values: Float64Array, row: number) =>
      seenAt[row] >= 0 ? values[seenAt[row]] / readings[seenAt[row]] : 0;
    let [most, size] = [0, pool.threads];
    for (let row = 0; row < readings.length; row++) {
      most = Math.max(most, perLook(waiting, row));
      if (!pool.threads) size = Math.max(size, Math.ceil(perLook(busy, row)));
    }
    const { pid } = app.names.processes[process];
    const jobs = (value: number) => value.toFixed(1);
    const threads = poolThreads(app.names, process);
    const choose = () => app.choose(null, threads);
    return {
      id: `pool-${process}`,
      kind: "pool",
      name: app.watched.pools.length === 1 ? "libuv pool" : `libuv pool of ${pid}`,
      hint: `libuv's pool: busy threads, of ${size}, and as a line the jobs that wait, up to ${jobs(most)}`,
      figures: [
        { text: `${jobs(sum(busy) / all)} of ${size}`, title: "Busy threads, on average" },
        { text: `${jobs(sum(waiting) / all)} wait`, title: "Jobs that wait, on average" },
      ],
      height: 22,
      thread: NO_THREAD,
      onName: threads.length ? choose : null,
      stalls: [],
      pauses: [],
      paint: ({ context, x, height, color }) => {
        context.fillStyle = color("--accent");
        context.globalAlpha = 0.45;
        for (let row = 0; row < readings.length; row++) {
          const tall = Math.min(1, perLook(busy, row) / Math.max(1, size)) * (height - 2);
          const from = x((first + row) * lengthNs);
          context.fillRect(from, height - tall, Math.max(0.6, x((first + row + 1) * lengthNs) - from), tall);
        }
        context.globalAlpha = 1;
        if (most < 0.05) return;
        context.strokeStyle = color("--text");
        context.lineWidth = 1.2;
        context.beginPath();
        for (let row = 0; row < readings.length; row++) {
          if (!(seenAt[row] >= 0)) continue;
          const y = height - 1 - (perLook(waiting, row) / most) * (height - 4);
          const from = x((first + row) * lengthNs);
          if (seenAt[row - 1] >= 0) context.lineTo(from, y);
          else context.moveTo(from, y);
          context.lineTo(x((first + row + 1) * lengthNs), y);
        }
        context.stroke();
      },
      tip: (ns) => {
        const row = Math.floor(ns / lengthNs) - first;
        if (!(seenAt[row] >= 0)) return [["pool", "not in use"]];
        return [
          ["busy threads", `${jobs(perLook(busy, row))} of ${size}`],
          ["waiting jobs", jobs(perLook(waiting, row))],
        ];
      },
    };
  }

  private band(thread: ThreadIndex, at: number, bands: Bands): LaneContent {
    const { app } = this;
    const { bins, binNs, kinds, shares, sums } = bands;
    const sum = sums.subarray(at * kinds.length, (at + 1) * kinds.length);
    // A page has no idle time: what is left of the recording is idle, or was not seen.
    const whole = Math.max(
      app.end,
      sum.reduce((all, value) => all + value, 0),
    );
    const ofState = (wanted: State) =>
      kinds.reduce((all, { state }, kind) => (state === wanted ? all + sum[kind] : all), 0);
    const parts = STATES.map((state) => ({ state, share: ofState(state) / whole }));
    const words = parts
      .filter(({ share }) => share > 0)
      .map(({ state, share }) => `${STATE_LABELS[state]} ${percent(share, 1)}`);
    const heaviest = parts
      .filter(({ state, share }) => state !== State.Idle && share > 0.005)
      .sort((one, other) => other.share - one.share);
    const { only } = app.state;
    return {
      id: `thread-${thread}`,
      kind: "thread",
      name: this.threadName(thread),
      hint: `${this.threadName(thread)}, ${this.whose(thread)}: ${words.join(", ")}`,
      figures: heaviest.slice(0, MAX_FIGURES).map(({ state, share }) => ({
        text: `${STATE_LABELS[state]} ${Math.max(1, Math.round(share * 100))} %`,
        title: `${words.join(", ")}. Click to see the samples`,
        onClick: () => app.choose(null, [thread], state),
      })),
      height: 13,
      thread,
      onName: () => app.choose(null, [thread]),
      stalls: [],
      pauses: [],
      paint: ({ context, x, height, pattern }) => {
        const fills = kinds.map((kind, place) => pattern(kind, waitPlace(kinds, place)));
        for (let bin = 0; bin < bins; bin++) {
          const from = x(bin * binNs);
          const width = Math.max(0.6, x((bin + 1) * binNs) - from);
          let bottom = height;
          for (let kind = 0; kind < kinds.length; kind++) {
            const tall = shares[(at * bins + bin) * kinds.length + kind] * height;
            if (tall <= 0) continue;
            context.globalAlpha = only === null || kinds[kind].state === only ? 1 : 0.25;
            context.fillStyle = fills[kind];
            context.fillRect(from, bottom - tall, width, tall);
            bottom -= tall;
          }
        }
        context.globalAlpha = 1;
      },
      tip: (ns) => {
        const first = (at * bins + Math.min(bins - 1, Math.floor(ns / binNs))) * kinds.length;
        const rows = kinds
          .map((kind, place): [string, number] => [kindLabel(kind), shares[first + place]])
          .filter(([, share]) => share > 0.005)
          .sort(([, left], [, right]) => right - left);
        return rows.length
          ? rows.map(([label, share]): [string, string] => [label, percent(share, 1)])
          : [["state", "not known"]];
      },
    };
  }

  // The states with their colours; each shows its samples alone.
  private showLegend(kinds: StateKind[], bands: Bands): void {
    const { app } = this;
    const sumOf = (kind: number) => {
      let sum = 0;
      for (let at = kind; at < bands.sums.length; at += bands.kinds.length) sum += bands.sums[at];
      return sum;
    };
    const shown = kinds.map((kind, place) => ({ kind, place })).filter(({ place }) => sumOf(place) > 0);
    this.legend.hidden = shown.length === 0 && !this.others;
    const blank = element("span", { className: "dim lane-blank" }, swatch("transparent"), "idle or not seen");
    const hasIdle = shown.some(({ kind }) => kind.state === State.Idle);
    this.legend.replaceChildren(
      element("span", { className: "lane-label" }, this.others ?? ""),
      ...shown.map(({ kind, place }) => {
        const { state } = kind;
        const isOn = app.state.only === state;
        const label = kindLabel(kind);
        const made = button("", isOn ? "Show all states" : `Show what is ${STATE_LABELS[state]} alone`, () =>
          app.change({ only: isOn ? null : state, zoom: [] }),
        );
        const sample = element("i", { className: `swatch state-${STATE_LABELS[state].toLowerCase()}` });
        sample.style.backgroundColor = stateFill(kind, waitPlace(kinds, place));
        made.append(sample, label);
        made.className = "lane-state";
        made.ariaPressed = String(isOn);
        return made;
      }),
      ...(kinds.length && !hasIdle ? [blank] : []),
    );
  }

  // Brings a track into sight and marks it for a moment.
  private reveal(id: string): void {
    const lane = this.lanes.find(({ content }) => content.id === id);
    if (!lane) return;
    lane.root.scrollIntoView({ block: "nearest" });
    lane.flash();
  }
}

const MAX_HELD = 3; // intervals

// For each interval the last one with a reading, if that was a moment ago; -1 where there is none.
export function lastSeen(readings: Float64Array): Int32Array {
  const seen = new Int32Array(readings.length).fill(-1);
  let last = -1;
  for (let row = 0; row < readings.length; row++) {
    if (readings[row] > 0) last = row;
    if (last >= 0 && row - last <= MAX_HELD) seen[row] = last;
  }
  return seen;
}

// Which of the kinds of waits it is: each has a colour of its own.
export const waitPlace = (kinds: StateKind[], place: number): number =>
  kinds.slice(0, place).filter(({ state }) => state === State.Waiting).length;
