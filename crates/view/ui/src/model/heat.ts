// The heat map: columns of equal length across the recording, each cut into rows. With columns of
// a second it is FlameScope's picture; shorter and longer recordings get other lengths.

import type { StackIndex, ThreadIndex } from "./indexes";
import type { EventType, Profile } from "./profile";
import { timeOf, weightOf } from "./samples";
import { Category } from "./tables";
import { threadMask } from "./tree";

export interface HeatMap {
  columnNs: number;
  columns: number;
  rows: number;
  from: number; // ns
  counts: Float64Array; // column by column, row 0 at the start of the column
  largest: number;
  event: EventType;
}

const MS = 1e6;
const SECOND = 1e9;
const LENGTHS = [
  MS,
  2 * MS,
  5 * MS,
  10 * MS,
  20 * MS,
  50 * MS,
  100 * MS,
  200 * MS,
  500 * MS,
  SECOND,
  2 * SECOND,
  5 * SECOND,
  10 * SECOND,
  30 * SECOND,
  60 * SECOND,
  120 * SECOND,
  300 * SECOND,
  600 * SECOND,
  1800 * SECOND,
  3600 * SECOND,
];
const MIN_COLUMNS = 24;
const MIN_ROWS = 5;
const SAMPLES_A_ROW = 1.9;

// A second where that gives a picture of some width and fits; else what is nearest to it.
export function columnLength(durationNs: number, maxColumns: number): number {
  const fits = LENGTHS.filter((length) => durationNs / length <= maxColumns);
  const wide = fits.filter((length) => length <= SECOND && durationNs / length >= MIN_COLUMNS);
  return wide.at(-1) ?? fits[0] ?? durationNs / maxColumns;
}

// How far apart samples are of a thread that does nothing but run. Rows and bins finer than that
// would show stripes that are not there.
export function stepOf(profile: Profile): number {
  const { rateHz } = profile.event;
  return rateHz > 0 ? 1e9 / rateHz : profile.end / Math.max(1, profile.samples.time.length);
}

export function heatMap(
  profile: Profile,
  threads: ReadonlySet<ThreadIndex> | null,
  maxColumns: number,
  maxRows: number,
): HeatMap {
  const { samples, end } = profile;
  const columnNs = columnLength(end, maxColumns);
  const columns = Math.max(1, Math.ceil(end / columnNs));
  const rows = Math.max(
    MIN_ROWS,
    Math.min(maxRows, Math.floor(columnNs / (SAMPLES_A_ROW * stepOf(profile)))),
  );
  const counts = new Float64Array(columns * rows);
  const mask = threadMask(profile, threads);
  const perRow = columnNs / rows;
  const isIdle = idleStacks(profile);
  let largest = 0;
  for (let row = 0; row < samples.time.length; row++) {
    if (mask && !mask[samples.thread[row]]) continue;
    const stack = samples.stack[row];
    if (stack >= 0 && isIdle[stack]) continue;
    const cell = Math.min(Math.floor(timeOf(samples, row) / perRow), counts.length - 1);
    counts[cell] += weightOf(samples, row);
    if (counts[cell] > largest) largest = counts[cell];
  }
  return { columnNs, columns, rows, from: 0, counts, largest, event: profile.event };
}

// Stacks of which the leaf is idle time.
export function idleStacks(profile: Profile): Uint8Array {
  const { stacks, frames, functions } = profile;
  const isIdle = new Uint8Array(stacks.frame.length);
  for (let row = 0 as StackIndex; row < isIdle.length; row++) {
    isIdle[row] = functions.category[frames.fn[stacks.frame[row]]] === Category.Idle ? 1 : 0;
  }
  return isIdle;
}
