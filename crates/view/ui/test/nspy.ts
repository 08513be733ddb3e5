// Writes recordings as .nspy, as far as tests need it; docs/native-format.md has every field.

import { gzipSync } from "node:zlib";

export class Section {
  readonly bytes: number[] = [];

  number(...values: (number | bigint)[]): this {
    for (const value of values) {
      let rest = BigInt(value);
      for (; rest > 127n; rest >>= 7n) this.bytes.push(Number(rest & 127n) | 128);
      this.bytes.push(Number(rest));
    }
    return this;
  }

  text(text: string): this {
    const bytes = new TextEncoder().encode(text);
    this.number(bytes.length);
    this.bytes.push(...bytes);
    return this;
  }
}

export interface WrittenEvent {
  name: string;
  unit: number;
  rateHz: number;
}

// A sample of function `fn`, which is its whole stack.
export interface WrittenSample {
  time: number;
  weight: number;
  fn: number;
  event: number;
  context?: number; // 0: none, else one more than its row
}

export interface WrittenTimeline {
  doublings: number;
  first: number;
  intervals: number[][]; // the numbers of each
}

const UNTIL_NEXT = 2;

function samplesOf(samples: WrittenSample[], isUntilNext: boolean): Section {
  const section = new Section().number(samples.length, 1); // ticks of 1 ns
  const steps = samples.map(({ time }, at) => time - (samples[at - 1]?.time ?? 0));
  for (const step of steps) section.bytes.push(Math.min(255, step));
  for (const step of steps) if (step >= 255) section.number(step - 255);
  if (isUntilNext) section.number(UNTIL_NEXT, samples.at(-1)!.weight);
  else section.number(0, ...samples.map(({ weight }) => weight));
  section.number(...samples.map(() => 0)); // threads
  let before = 0;
  for (const { fn } of samples) {
    const step = fn + 1 - before;
    section.number(step < 0 ? -step * 2 - 1 : step * 2);
    before = fn + 1;
  }
  return section;
}

export interface Written {
  functions: string[];
  events: WrittenEvent[];
  samples: WrittenSample[];
  isUntilNext?: boolean; // weights follow from the times
  tags?: Section; // instead of those that the samples have
  eventTable?: Section;
  version?: number;
  categories?: number[]; // of functions
  durationNs?: number;
  contexts?: Record<string, string>[];
  loops?: (WrittenTimeline & { thread: number; stalls: [step: number, lasted: number][] })[];
  pools?: (WrittenTimeline & { process: number })[];
  pauses?: [step: number, lasted: number, kind: number][]; // of the first thread
}

function putIntervals(section: Section, { doublings, first, intervals }: WrittenTimeline): void {
  section.number(doublings, first, intervals.length);
  for (let column = 0; column < (intervals[0]?.length ?? 0); column++)
    section.number(...intervals.map((numbers) => numbers[column]));
}

// Sections that older recordings do not have.
function laterSections({ contexts, loops, pools, pauses }: Written): [number, Section][] {
  const sections: [number, Section][] = [];
  if (loops) {
    const section = new Section().number(loops.length);
    for (const { thread, stalls, ...timeline } of loops) {
      putIntervals(section.number(thread), timeline);
      section.number(stalls.length, ...stalls.flat());
    }
    sections.push([25, section]);
  }
  if (pools) {
    const section = new Section().number(pools.length);
    for (const { process, ...timeline } of pools) putIntervals(section.number(process), timeline);
    sections.push([26, section]);
  }
  if (pauses) sections.push([33, new Section().number(1, 0, pauses.length, ...pauses.flat())]);
  if (contexts) {
    const section = new Section().number(contexts.length);
    for (const labels of contexts) {
      section.number(Object.keys(labels).length);
      for (const [key, value] of Object.entries(labels)) section.text(key).text(value);
    }
    sections.push([16, section]);
  }
  return sections;
}

// The sections of a recording of one thread.
export function sectionsOf(written: Written): [number, Section][] {
  const { functions, events, samples } = written;
  const rows = functions.map((_, at) => at);
  const [first] = events;
  const about = new Section().number(first.unit).text("app").text("host").text("").text(first.name);
  about.number(first.rateHz, 0, written.durationNs ?? 1000).text("");
  const strings = new Section().number(rows.length, ...functions.map((name) => name.length));
  strings.bytes.push(...new TextEncoder().encode(functions.join("")));
  const none = rows.map(() => 0);
  const table = new Section().number(events.length);
  for (const { name, unit, rateHz } of events) table.text(name).number(unit, rateHz ? 1 : 0, rateHz);
  const each = samples.map(({ event }) => event);
  const contexts = written.contexts
    ? [1, each.length, ...samples.map(({ context }) => context ?? 0)]
    : [0, 0];
  return [
    [1, about],
    [15, written.eventTable ?? table],
    [3, strings],
    [
      4,
      new Section().number(rows.length, ...rows, ...none, ...none, ...none, ...(written.categories ?? none)),
    ],
    [5, new Section().number(rows.length, ...rows, ...none, ...none, ...none, ...none)],
    [6, new Section().number(rows.length, ...none, ...rows)],
    [7, new Section().number(1, 7, 0).text("node").text("node app.js").number(0, 0, 0)],
    [8, new Section().number(1, 0, 7).text("node").number(0)],
    ...laterSections(written),
    [17, written.tags ?? new Section().number(1, each.length, ...each, ...contexts)],
    [9, samplesOf(samples, written.isUntilNext ?? false)],
    [0, new Section()],
  ];
}

export function nspy(written: Written): Uint8Array {
  const content: number[] = [];
  for (const [id, { bytes }] of sectionsOf(written)) {
    content.push(...new Section().number(id, bytes.length).bytes, ...bytes);
  }
  const magic = [0x4e, 0x53, 0x50, 0x59, 0x0d, 0x0a, 0x1a, 0x0a];
  const header = [...magic, written.version ?? 4, 0, 0, 0, 0, 0, 0, 0];
  return Uint8Array.from([...header, ...gzipSync(Uint8Array.from(content))]);
}
