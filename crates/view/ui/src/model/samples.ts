// The samples of a recording. There can be millions, so their columns are as narrow as they can be.

import type { Columns } from "./columns";
import { type Column, column, plain, type StackIndex, type ThreadIndex } from "./indexes";

type Narrow = Uint8Array | Uint16Array | Int32Array;

export interface SampleColumns {
  time: Uint32Array | Float64Array; // in ticks from the start, rising
  tick: number; // ns
  // What each sample weighs: a column, or a rule for all of them.
  weight: Float64Array | Uint32Array | "one" | "untilNext";
  lastWeight: number; // of the last sample, where the others weigh what passes until the next
  thread: Column<number, ThreadIndex, Narrow>;
  stack: Column<number, StackIndex>; // -1 for none
  state?: Uint8Array | null; // one more than the row of its kind of state; 0 for none
  route?: Uint16Array | null; // the row of its route; 0 for no request
}

export const timeOf = (samples: SampleColumns, row: number): number => samples.time[row] * samples.tick;

export function weightOf(samples: SampleColumns, row: number): number {
  const { weight, time } = samples;
  if (weight === "one") return 1;
  if (weight !== "untilNext") return weight[row];
  return row + 1 < time.length ? (time[row + 1] - time[row]) * samples.tick : samples.lastWeight;
}

// The first sample at or after a time in ns.
export function rowAt(samples: SampleColumns, time: number): number {
  let low = 0;
  let high = samples.time.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (timeOf(samples, middle) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const WEIGHTS = { column: 0, same: 1, untilNext: 2 };
// A step of at least this much is split: this byte, and the rest in a column of its own.
const LONG_STEP = 255;

type Growing = Uint8Array | Uint16Array | Int32Array | Uint32Array | Float64Array;

// A column with room for `rows`.
function grown<T extends Growing>(column: T, rows: number): T {
  if (rows <= column.length) return column;
  const larger = new (column.constructor as new (length: number) => T)(Math.max(rows, column.length * 2));
  larger.set(column);
  return larger;
}

const TAGS = { same: 0, each: 1 };

// What is said of the samples in the next section: one number for all of them, or a column.
export interface SampleTags {
  events: number | Uint16Array;
  states: number | Uint8Array;
  routes: number | Uint16Array;
}
export const NO_TAGS: SampleTags = { events: 0, states: 0, routes: 0 };

// `stateOf` has the state of each context, `routeOf` its route; null where none has one.
export function tagsOf(
  section: Columns,
  events: number,
  stateOf: Uint8Array | null,
  routeOf: Uint16Array | null,
): SampleTags {
  const event = () => {
    const row = section.number();
    if (row >= events) throw new Error(`event ${row} of ${events} at byte ${section.at}`);
    return row;
  };
  const ofEvents = tagOf(section, (rows) => new Uint16Array(rows), event);
  if (!stateOf && !routeOf) return { ...NO_TAGS, events: ofEvents };
  const contexts = tagOf(
    section,
    (rows) => new Uint32Array(rows),
    () => section.number(),
  );
  return {
    events: ofEvents,
    states: stateOf ? ofContexts(contexts, stateOf) : 0,
    routes: routeOf ? ofContexts(contexts, routeOf) : 0,
  };
}

function ofContexts<T extends Uint8Array | Uint16Array>(contexts: number | Uint32Array, of: T): number | T {
  if (typeof contexts === "number") return of[contexts] ?? 0;
  const tags = new (of.constructor as new (length: number) => T)(contexts.length);
  for (let row = 0; row < tags.length; row++) tags[row] = of[contexts[row]] ?? 0;
  return tags;
}

function tagOf<T extends Uint16Array | Uint32Array>(
  section: Columns,
  made: (rows: number) => T,
  next: () => number,
): number | T {
  const kind = section.number();
  if (kind === TAGS.same) return next();
  if (kind !== TAGS.each) throw new Error(`unknown kind of tags at byte ${section.at}`);
  const column = made(section.rows());
  for (let row = 0; row < column.length; row++) column[row] = next();
  return column;
}

// A column with the tags of the samples of another section; none while all of them are 0.
function withTags<T extends Uint8Array | Uint16Array>(
  known: T | null,
  tags: number | T,
  from: number,
  end: number,
  none: () => T,
  what: string,
): T | null {
  if (typeof tags !== "number" && tags.length < end - from)
    throw new Error(`${tags.length} of ${end - from} samples have ${what === "event" ? "an" : "a"} ${what}`);
  if (tags === 0 && !known) return null;
  const column = grown(known ?? none(), end);
  if (typeof tags === "number") column.fill(tags, from, end);
  else column.set(tags.subarray(0, end - from), from);
  return column;
}

// Takes sections of samples, in order.
export class SampleTable {
  private rows = 0;
  private event: Uint16Array | null = null; // null: all samples are of the first event
  private state: Uint8Array | null = null; // null: none has one
  private route: Uint16Array | null = null; // null: none is in a request
  private ticks = 0; // time of the last sample
  private lastStack = 0; // row + 1
  private readonly samples: SampleColumns;

  constructor(announced: number, threads: number) {
    const narrow = threads <= 0xff ? Uint8Array : threads <= 0xffff ? Uint16Array : Int32Array;
    this.samples = {
      time: new Uint32Array(announced),
      tick: 0,
      weight: "one",
      lastWeight: 0,
      thread: column(new narrow(announced)),
      stack: column(new Int32Array(announced)),
    };
  }

  take(section: Columns, tags: SampleTags): void {
    const { samples } = this;
    const from = this.rows;
    const end = from + section.rows();
    this.event = withTags(this.event, tags.events, from, end, () => new Uint16Array(0), "event");
    this.state = withTags(this.state, tags.states, from, end, () => new Uint8Array(0), "state");
    this.route = withTags(this.route, tags.routes, from, end, () => new Uint16Array(0), "route");
    samples.time = grown(samples.time, end);
    samples.thread = column(grown(plain<Narrow>(samples.thread), end));
    samples.stack = column(grown(plain(samples.stack), end));
    this.takeTimes(section, from, end);
    this.takeWeights(section, from, end);
    section.into(plain<Narrow>(samples.thread), from, end - from);
    let stack = this.lastStack;
    for (let row = from; row < end; row++)
      samples.stack[row] = ((stack += section.signed()) - 1) as StackIndex;
    this.lastStack = stack;
    this.rows = end;
  }

  private takeTimes(section: Columns, from: number, end: number): void {
    const { samples } = this;
    const tick = section.number() || 1;
    if (from === 0) samples.tick = tick;
    else if (tick !== samples.tick) this.toNanoseconds();
    const scale = tick / samples.tick;
    const short = section.take(end - from);
    for (let row = from; row < end; row++) {
      let step = short[row - from];
      if (step === LONG_STEP) step += section.number();
      this.ticks += step * scale;
      if (this.ticks > 0xffffffff && samples.time instanceof Uint32Array)
        samples.time = Float64Array.from(samples.time);
      samples.time[row] = this.ticks;
    }
  }

  // Sections may count time in ticks of different lengths; nodespy's own do not.
  private toNanoseconds(): void {
    const { samples } = this;
    const { time, tick } = samples;
    samples.time = Float64Array.from(time, (ticks) => ticks * tick);
    this.ticks *= tick;
    samples.tick = 1;
  }

  private takeWeights(section: Columns, from: number, end: number): void {
    const { samples } = this;
    const kind = section.number();
    if (kind === WEIGHTS.same) {
      const weight = section.number();
      if (weight === 1 && samples.weight === "one") return;
      for (let row = from; row < end; row++) this.setWeight(row, weight);
    } else if (kind === WEIGHTS.untilNext) {
      const last = section.number();
      if (end === from) return;
      // As a rule when all sections agree, also where one ends and the next begins.
      const goesOn =
        from === 0 ||
        (samples.weight === "untilNext" &&
          samples.lastWeight === (samples.time[from] - samples.time[from - 1]) * samples.tick);
      if (goesOn) {
        samples.weight = "untilNext";
        samples.lastWeight = last;
        return;
      }
      for (let row = from; row + 1 < end; row++)
        this.setWeight(row, (samples.time[row + 1] - samples.time[row]) * samples.tick);
      this.setWeight(end - 1, last);
    } else if (kind === WEIGHTS.column) {
      for (let row = from; row < end; row++) this.setWeight(row, section.number());
    } else throw new Error(`unknown kind of weights at byte ${section.at}`);
  }

  private setWeight(row: number, weight: number): void {
    const { samples } = this;
    let column = typeof samples.weight === "string" ? this.writeOut(row) : samples.weight;
    column = grown(column, samples.time.length);
    if (weight > 0xffffffff && column instanceof Uint32Array) column = Float64Array.from(column);
    column[row] = weight;
    samples.weight = column;
  }

  // The weights of the first rows as a column, where a rule held until now.
  private writeOut(rows: number): Uint32Array | Float64Array {
    const { samples } = this;
    const known = { ...samples, time: samples.time.subarray(0, rows) };
    const column = new Float64Array(samples.time.length);
    for (let row = 0; row < rows; row++) column[row] = weightOf(known, row);
    return column.every((weight) => weight <= 0xffffffff) ? Uint32Array.from(column) : column;
  }

  finish(): SampleColumns {
    const { samples, rows } = this;
    const { weight } = samples;
    return {
      ...samples,
      tick: samples.tick || 1,
      time: samples.time.subarray(0, rows),
      thread: samples.thread.subarray(0, rows),
      stack: samples.stack.subarray(0, rows),
      state: this.state && grown(this.state, rows).subarray(0, rows),
      route: this.route && grown(this.route, rows).subarray(0, rows),
      weight: typeof weight === "string" ? weight : weight.subarray(0, rows),
    };
  }

  // All samples, event by event.
  byEvent(all: SampleColumns, events: number): SampleColumns[] {
    if (events === 1) return [all];
    const rows = Array.from({ length: events }, () => 0);
    const eventOf = (row: number) => this.event?.[row] ?? 0;
    for (let row = 0; row < all.time.length; row++) rows[eventOf(row)]++;
    const chosen = rows.map((count) => new Int32Array(count));
    rows.fill(0);
    for (let row = 0; row < all.time.length; row++) {
      const event = eventOf(row);
      chosen[event][rows[event]++] = row;
    }
    return chosen.map((each) => pickedSamples(all, each));
  }
}

function picked<T extends Growing>(values: T, rows: Int32Array): T {
  const made = new (values.constructor as new (length: number) => T)(rows.length);
  for (let at = 0; at < made.length; at++) made[at] = values[rows[at]];
  return made;
}

// Weights that follow from the next sample are written out: the next one may be of another event.
function pickedSamples(all: SampleColumns, rows: Int32Array): SampleColumns {
  const { weight } = all;
  const written = () => Float64Array.from(rows, (row) => weightOf(all, row));
  return {
    ...all,
    time: picked(all.time, rows),
    weight: weight === "one" ? weight : weight === "untilNext" ? written() : picked(weight, rows),
    thread: column(picked(plain<Narrow>(all.thread), rows)),
    stack: column(picked(plain(all.stack), rows)),
    state: all.state && picked(all.state, rows),
    route: all.route && picked(all.route, rows),
  };
}
