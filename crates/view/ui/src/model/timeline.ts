// Time order: what one thread did, sample after sample. Boxes are never made for the whole
// recording: with more samples than pixels, one sample stands for each column of pixels.

import { type Column, column, type FunctionIndex, type PathIndex, type ThreadIndex } from "./indexes";
import { categoryOf, type Profile } from "./profile";
import { type SampleColumns, timeOf, weightOf } from "./samples";
import type { Shape } from "./shape";
import { Category } from "./tables";

export interface Timeline {
  // Boxes in order of their row, then of time.
  depth: Uint16Array;
  fn: Column<number, FunctionIndex>;
  from: Float64Array; // ns
  to: Float64Array;
  rows: number;
  // Whether a column of pixels stands for several samples, of which one is shown.
  isSampled: boolean;
}

const MAX_STEP = 2.5; // usual steps between samples; a longer one is a gap

// The rows of one thread's samples.
export function rowsOfThread(samples: SampleColumns, thread: ThreadIndex): Int32Array {
  let count = 0;
  for (let row = 0; row < samples.thread.length; row++) if (samples.thread[row] === thread) count++;
  const rows = new Int32Array(count);
  let at = 0;
  for (let row = 0; row < samples.thread.length; row++) if (samples.thread[row] === thread) rows[at++] = row;
  return rows;
}

// The usual step between samples: the median of some of them, or what the rate says.
export function usualStep(profile: Profile, rows: Int32Array): number {
  const { samples } = profile;
  const steps: number[] = [];
  const every = Math.max(1, Math.floor(rows.length / 1000));
  for (let at = every; at < rows.length; at += every)
    steps.push(timeOf(samples, rows[at]) - timeOf(samples, rows[at - 1]));
  steps.sort((left, right) => left - right);
  const median = steps.length ? steps[steps.length >> 1] : 1e6;
  const { rateHz } = profile.event;
  return rateHz > 0 ? Math.max(1e9 / rateHz, Math.min(median, 2e9 / rateHz)) : median;
}

export function timeline(
  profile: Profile,
  shape: Shape,
  rows: Int32Array,
  step: number,
  from: number,
  to: number,
  columns: number,
): Timeline {
  const spans = spansOf(profile, rows, step, from, to, columns);
  const boxes = new Boxes(shape, profile);
  for (let at = 0; at < spans.row.length; at++) {
    const stack = profile.samples.stack[spans.row[at]];
    boxes.add(stack < 0 ? shape.noStack : shape.nodeOf[stack], spans.from[at], spans.to[at]);
  }
  return { ...boxes.finish(), isSampled: spans.isSampled };
}

interface Spans {
  row: number[];
  from: number[];
  to: number[];
  isSampled: boolean;
}

function spansOf(
  profile: Profile,
  rows: Int32Array,
  step: number,
  from: number,
  to: number,
  columns: number,
): Spans {
  const { samples } = profile;
  const startOf = (at: number) => timeOf(samples, rows[at]);
  const firstAfter = (wanted: number) => {
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (startOf(middle) < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const first = Math.max(0, firstAfter(from) - 1);
  const last = firstAfter(to);
  const hasLengths = profile.event.unit === "nanoseconds" && samples.weight !== "one";
  const endOfSample = (at: number) => {
    const start = startOf(at);
    const next = at + 1 < rows.length ? startOf(at + 1) : Infinity;
    // Where weights are times, they say how long a sample stands for.
    if (hasLengths) return Math.min(next, start + weightOf(samples, rows[at]));
    return Math.min(next, start + (next - start > step * MAX_STEP ? step : step * MAX_STEP));
  };
  const spans: Spans = { row: [], from: [], to: [], isSampled: last - first > columns * 2 };
  if (!spans.isSampled) {
    for (let at = first; at < last; at++) {
      spans.row.push(rows[at]);
      spans.from.push(startOf(at));
      spans.to.push(endOfSample(at));
    }
    return spans;
  }
  const width = (to - from) / columns;
  let at = first;
  for (let column = 0; column < columns; column++) {
    const start = from + column * width;
    const end = start + width;
    const begin = at;
    while (at < last && startOf(at) < end) at++;
    // The middle one stands for its column; a column without samples goes on with the last one.
    const shown = at > begin ? (begin + at) >> 1 : at - 1;
    if (shown < 0 || (at === begin && endOfSample(shown) < start)) continue;
    spans.row.push(rows[shown]);
    spans.from.push(start);
    spans.to.push(end);
  }
  return spans;
}

// Joins what goes on from one sample to the next. A path is compared with the one before from the
// root up, so only what changes costs anything.
class Boxes {
  private readonly boxes: { depth: number; fn: FunctionIndex; from: number; to: number }[] = [];
  private open: number[] = []; // by depth, the box that may go on
  private path: PathIndex[] = []; // by depth, the node of that box
  private end = -1;

  constructor(
    private readonly shape: Shape,
    private readonly profile: Profile,
  ) {}

  add(node: PathIndex, from: number, to: number): void {
    if (node <= 0) return;
    const path = this.pathOf(node);
    const isGap = from > this.end + 1;
    let common = 0;
    if (!isGap)
      while (common < path.length && common < this.path.length && path[common] === this.path[common])
        common++;
    for (let depth = 0; depth < common; depth++) this.boxes[this.open[depth]].to = to;
    this.open.length = common;
    for (let depth = common; depth < path.length; depth++) {
      this.open.push(this.boxes.push({ depth, fn: this.shape.fn[path[depth]], from, to }) - 1);
    }
    this.path = path;
    this.end = to;
  }

  // V8's own profiler reports a collection as a stack of its own; it is drawn on top of what it
  // interrupts.
  private pathOf(node: PathIndex): PathIndex[] {
    const { shape } = this;
    const isBareGc = shape.parent[node] === 0 && categoryOf(this.profile, shape.fn[node]) === Category.Gc;
    if (isBareGc && this.path.length > 0) {
      return this.path.at(-1) === node ? this.path : [...this.path, node];
    }
    const path: PathIndex[] = [];
    for (let at = node; at > 0; at = shape.parent[at]) path.push(at);
    return path.reverse();
  }

  finish(): Omit<Timeline, "isSampled"> {
    this.boxes.sort((left, right) => left.depth - right.depth || left.from - right.from);
    const rows = this.boxes.length ? this.boxes[this.boxes.length - 1].depth + 1 : 0;
    return {
      depth: Uint16Array.from(this.boxes, (box) => box.depth),
      fn: column(Int32Array.from(this.boxes, (box) => box.fn)),
      from: Float64Array.from(this.boxes, (box) => box.from),
      to: Float64Array.from(this.boxes, (box) => box.to),
      rows,
    };
  }
}
