// What event loops, libuv's pools and the garbage collector did over time, watched beside the samples.

import type { Columns } from "./columns";
import type { ThreadIndex } from "./indexes";
import type { Range } from "./tree";

const MIN_INTERVAL = 50e6;
const MAX_INTERVALS = 2048;
const MAX_DOUBLINGS = 30;
// A stall is seen by readings: it may have gone on until the next one.
const LOOK = 50e6;

// Intervals of one length; those before the first are not known.
interface Intervals {
  lengthNs: number;
  first: number;
}

export interface Stall {
  start: number; // ns
  lasted: number;
}

export const GC_KINDS = ["scavenge", "mark-compact", "other"] as const;

export interface GcPause extends Stall {
  kind: (typeof GC_KINDS)[number];
}

export interface LoopTimeline extends Intervals {
  thread: ThreadIndex;
  watched: Float64Array; // ns
  busy: Float64Array;
  stalls: Stall[];
  pauses: GcPause[]; // of the garbage collector, where they were measured; the longest
  summary: LoopSummary | null;
}

export interface LoopSummary {
  watched: number;
  idle: number;
  longest: number;
}

export interface PoolTimeline extends Intervals {
  process: number;
  threads: number; // 0: not known
  readings: Float64Array;
  busy: Float64Array; // sums over the readings
  waiting: Float64Array;
}

export interface Watched {
  loops: LoopTimeline[];
  pools: PoolTimeline[];
}

// When a stall was, with the samples of what it ended with.
export const rangeOf = ({ start, lasted }: Stall, end: number): Range => ({
  from: Math.floor(start),
  to: Math.max(Math.ceil(Math.min(start + lasted + LOOK, end)), Math.floor(start) + 1),
});

// When a pause was: its start and end were measured.
export const rangeOfPause = ({ start, lasted }: GcPause): Range => ({
  from: Math.floor(start),
  to: Math.floor(start) + Math.max(1, Math.ceil(lasted)),
});

export const longestOf = <T extends Stall>(stalls: readonly T[]): T | null =>
  stalls.reduce<T | null>((most, stall) => (stall.lasted > (most?.lasted ?? 0) ? stall : most), null);

// Takes the sections about loops and pools, and puts together what they say of the same.
export class WatchedTables {
  private readonly loops: LoopTimeline[] = [];
  private readonly pools: PoolTimeline[] = [];
  private readonly summaries = new Map<number, LoopSummary>();
  private readonly sizes = new Map<number, number>();
  private readonly pauses = new Map<number, GcPause[]>();

  takeLoops(section: Columns): void {
    const rows = section.rows();
    const column = () => section.into(new Float64Array(rows), 0, rows);
    const [threads, watched, idle, , longest] = [column(), column(), column(), column(), column()];
    for (let row = 0; row < rows; row++)
      this.summaries.set(threads[row], { watched: watched[row], idle: idle[row], longest: longest[row] });
  }

  takePools(section: Columns): void {
    for (let rows = section.rows(); rows > 0; rows--) {
      const process = section.number();
      this.sizes.set(process, section.number());
      section.skip(6);
      for (let kinds = section.number(); kinds > 0; kinds--) {
        section.text(section.number());
        section.number();
        section.text(section.number());
      }
    }
  }

  takeLoopTimelines(section: Columns): void {
    for (let rows = section.rows(); rows > 0; rows--) {
      const thread = section.number() as ThreadIndex;
      const { lengthNs, first, columns } = intervalsOf(section, 2);
      const stalls: Stall[] = [];
      let start = 0;
      for (let left = section.rows(); left > 0; left--) {
        start += section.number();
        stalls.push({ start, lasted: section.number() });
      }
      const [watched, busy] = columns;
      this.loops.push({ thread, lengthNs, first, watched, busy, stalls, pauses: [], summary: null });
    }
  }

  takeGcTimelines(section: Columns): void {
    for (let rows = section.rows(); rows > 0; rows--) {
      const thread = section.number();
      const pauses: GcPause[] = [];
      let start = 0;
      for (let left = section.rows(); left > 0; left--) {
        start += section.number();
        const lasted = section.number();
        pauses.push({ start, lasted, kind: GC_KINDS[section.number()] ?? "other" });
      }
      this.pauses.set(thread, pauses);
    }
  }

  takePoolTimelines(section: Columns): void {
    for (let rows = section.rows(); rows > 0; rows--) {
      const process = section.number();
      const { lengthNs, first, columns } = intervalsOf(section, 3);
      const [readings, busy, waiting] = columns;
      this.pools.push({ process, threads: 0, lengthNs, first, readings, busy, waiting });
    }
  }

  finish(threads: number, processes: number): Watched {
    const { summaries, sizes, pauses } = this;
    const loops = this.loops.filter(({ thread }) => thread < threads);
    const pools = this.pools.filter(({ process }) => process < processes);
    return {
      loops: loops.map((loop) => ({
        ...loop,
        summary: summaries.get(loop.thread) ?? null,
        pauses: pauses.get(loop.thread) ?? [],
      })),
      pools: pools.map((pool) => ({ ...pool, threads: sizes.get(pool.process) ?? 0 })),
    };
  }
}

function intervalsOf(section: Columns, width: number): Intervals & { columns: Float64Array[] } {
  const [doublings, first, rows] = [section.number(), section.number(), section.number()];
  if (doublings > MAX_DOUBLINGS || first + rows > MAX_INTERVALS)
    throw new Error(`${rows} intervals that can't be, at byte ${section.at}`);
  const columns = Array.from({ length: width }, () => section.into(new Float64Array(rows), 0, rows));
  return { lengthNs: MIN_INTERVAL * 2 ** doublings, first, columns };
}
