// Decodes the sections of a recording in nodespy's own format, versions 3 to 5, into columns of numbers.
// Sections and columns that the page has no use for are skipped.

import { type Columns, joined } from "./columns";
import { column, type StackIndex, type TextIndex } from "./indexes";
import { packagesOf } from "./packages";
import {
  type About,
  type EventType,
  type FrameColumns,
  type FunctionColumns,
  type Process,
  type Recording,
  type Source,
  type StackColumns,
  Texts,
  type Thread,
  type Unit,
} from "./profile";
import { RouteTable, withRoutes } from "./routes";
import { NO_TAGS, type SampleColumns, SampleTable, type SampleTags, tagsOf, timeOf } from "./samples";
import { StateTable } from "./states";
import { WatchedTables } from "./watched";

const UNITS: Unit[] = ["samples", "nanoseconds", "bytes", "events"];
const SECTION = {
  about: 1,
  strings: 3,
  functions: 4,
  frames: 5,
  stacks: 6,
  processes: 7,
  threads: 8,
  samples: 9,
  counts: 10,
  sources: 12,
  events: 15,
  contexts: 16,
  tags: 17,
  eventLoops: 23,
  pools: 24,
  loopTimelines: 25,
  poolTimelines: 26,
  gcTimelines: 33,
};
const MAX_EVENTS = 1024;
// How much room an announcement gets at once; more comes as rows do.
const MAX_ANNOUNCED = 1 << 26;

// What was read so far.
export class Tables {
  private about: About = { app: "", host: "", started: 0, durationNs: 0 };
  private events: EventType[] = [{ name: "", unit: "samples", rateHz: 0 }];
  private texts: { bytes: Uint8Array; ends: Uint32Array } = {
    bytes: new Uint8Array(0),
    ends: new Uint32Array(0),
  };
  private functions: FunctionColumns = {
    name: column(new Int32Array(0)),
    file: column(new Int32Array(0)),
    line: new Uint32Array(0),
    column: new Uint32Array(0),
    category: new Uint8Array(0),
  };
  private frames: FrameColumns = {
    fn: column(new Int32Array(0)),
    line: new Uint32Array(0),
    tier: new Uint8Array(0),
    kind: new Uint8Array(0),
  };
  private stacks: StackColumns = { parent: column(new Int32Array(0)), frame: column(new Int32Array(0)) };
  private processes: Process[] = [];
  private threads: Thread[] = [];
  private sources: Source[] = [];
  private samples: SampleTable | null = null;
  private announcedSamples = 0;
  private tags: SampleTags = NO_TAGS; // of the samples in the next section
  private readonly states = new StateTable();
  private readonly routes = new RouteTable();
  private readonly watched = new WatchedTables();

  take(id: number, section: Columns): void {
    switch (id) {
      case SECTION.about:
        this.takeAbout(section);
        break;
      case SECTION.counts:
        this.takeCounts(section);
        break;
      case SECTION.strings:
        this.texts = added(this.texts, parseTexts(section, this.texts.bytes.length));
        break;
      case SECTION.functions:
        this.functions = added(this.functions, parseFunctions(section));
        break;
      case SECTION.frames:
        this.frames = added(this.frames, parseFrames(section));
        break;
      case SECTION.stacks:
        this.stacks = added(this.stacks, parseStacks(section, this.stacks.parent.length));
        break;
      case SECTION.processes:
        this.processes.push(...parseProcesses(section));
        break;
      case SECTION.threads:
        this.threads.push(...parseThreads(section));
        break;
      case SECTION.events:
        this.takeEvents(section);
        break;
      case SECTION.tags:
        this.tags = tagsOf(section, this.events.length, this.states.numbers, this.routes.numbers);
        break;
      case SECTION.samples:
        this.sampleTable().take(section, this.tags);
        this.tags = NO_TAGS;
        break;
      case SECTION.contexts:
        this.takeContexts(section);
        break;
      case SECTION.eventLoops:
        this.watched.takeLoops(section);
        break;
      case SECTION.pools:
        this.watched.takePools(section);
        break;
      case SECTION.loopTimelines:
        this.watched.takeLoopTimelines(section);
        break;
      case SECTION.poolTimelines:
        this.watched.takePoolTimelines(section);
        break;
      case SECTION.gcTimelines:
        this.watched.takeGcTimelines(section);
        break;
      case SECTION.sources:
        this.sources.push(...parseSources(section));
        break;
    }
  }

  finish(): Recording {
    const { frames, stacks, processes, threads, sources, about, events } = this;
    const recorded = new Texts(this.texts.bytes, this.texts.ends);
    const all = this.sampleTable().finish();
    checkRows(recorded, this.functions, frames, stacks, all, threads);
    const { texts, functions, routes } = withRoutes(recorded, this.functions, this.routes.names);
    return {
      texts,
      functions,
      routes,
      frames,
      stacks,
      processes,
      threads,
      events,
      samples: this.sampleTable().byEvent(all, events.length),
      sources,
      states: this.states.kinds,
      watched: this.watched.finish(threads.length, processes.length),
      about,
      ...packagesOf(texts, functions),
      base: events.map(() => null),
      baseThreads: threads.length,
      end: Math.max(about.durationNs, all.time.length ? timeOf(all, all.time.length - 1) + 1 : 1),
    };
  }

  // Threads are known before the first sample.
  private sampleTable(): SampleTable {
    return (this.samples ??= new SampleTable(
      Math.min(this.announcedSamples, MAX_ANNOUNCED),
      this.threads.length,
    ));
  }

  // The first event, where no other section says more.
  private takeAbout(section: Columns): void {
    const unit = UNITS[section.number()] ?? "samples";
    const [app, host, , name] = section.texts(4);
    this.events = [{ name, unit, rateHz: section.number() }];
    this.about = { app, host, started: section.number(), durationNs: section.number() };
  }

  private takeEvents(section: Columns): void {
    const rows = section.rows();
    if (rows > MAX_EVENTS) throw new Error(`${rows} events, of which ${MAX_EVENTS} are read`);
    if (rows > 0) this.events = Array.from({ length: rows }, () => parseEvent(section));
  }

  private takeContexts(section: Columns): void {
    for (let rows = section.rows(); rows > 0; rows--) {
      const labels = new Map<string, string>();
      for (let left = section.number(); left > 0; left--) {
        const [key, value] = section.texts(2);
        labels.set(key, value);
      }
      this.states.add(labels);
      this.routes.add(labels.get("route"));
    }
  }

  private takeCounts(section: Columns): void {
    for (let table = 0; table < 6; table++) section.number();
    this.announcedSamples = section.number();
  }
}

// Tables may come in several sections; nodespy's own come in one, but for the samples.
function added<T extends { [key in keyof T]: { readonly length: number } }>(known: T, more: T): T {
  const sum = { ...more };
  for (const key of Object.keys(more) as (keyof T)[])
    if (known[key].length) sum[key] = joined(known[key], more[key]);
  return sum;
}

const BY_RATE = 1; // the others: not known, and by a number of occurrences

function parseEvent(section: Columns): EventType {
  const name = section.text(section.number());
  const unit = UNITS[section.number()] ?? "samples";
  const [sampling, value] = [section.number(), section.number()];
  return { name, unit, rateHz: sampling === BY_RATE ? value : 0 };
}

// `first`: how many bytes of text there are already.
function parseTexts(section: Columns, first: number): { bytes: Uint8Array; ends: Uint32Array } {
  const ends = new Uint32Array(section.rows());
  let end = first;
  for (let row = 0; row < ends.length; row++) ends[row] = end += section.number();
  // The section's own bytes are not kept.
  return { bytes: section.take(end - first).slice(), ends };
}

function parseFunctions(section: Columns): FunctionColumns {
  const rows = section.rows();
  return {
    name: column(section.into(new Int32Array(rows), 0, rows)),
    file: column(section.into(new Int32Array(rows), 0, rows, -1)),
    line: section.into(new Uint32Array(rows), 0, rows),
    column: section.into(new Uint32Array(rows), 0, rows),
    category: section.into(new Uint8Array(rows), 0, rows),
  };
}

function parseFrames(section: Columns): FrameColumns {
  const rows = section.rows();
  const fn = section.into(new Int32Array(rows), 0, rows);
  const line = section.into(new Uint32Array(rows), 0, rows);
  section.skip(rows); // the column being run
  return {
    fn: column(fn),
    line,
    tier: section.into(new Uint8Array(rows), 0, rows),
    kind: section.into(new Uint8Array(rows), 0, rows),
  };
}

// `first`: how many stacks there are already.
function parseStacks(section: Columns, first: number): StackColumns {
  const rows = section.rows();
  const parent = new Int32Array(rows);
  for (let row = 0; row < rows; row++) {
    const back = section.number();
    parent[row] = back === 0 ? -1 : first + row - back;
  }
  return { parent: column(parent), frame: column(section.into(new Int32Array(rows), 0, rows)) };
}

function parseProcesses(section: Columns): Process[] {
  const rows = section.rows();
  const pids = section.into(new Uint32Array(rows), 0, rows);
  section.skip(rows);
  const names = section.texts(rows);
  const commands = section.texts(rows);
  const versions = Array.from({ length: rows }, () =>
    section.number() ? section.text(section.number()) : "",
  );
  return names.map((name, row) => ({ pid: pids[row], name, command: commands[row], version: versions[row] }));
}

function parseThreads(section: Columns): Thread[] {
  const rows = section.rows();
  const process = section.into(new Int32Array(rows), 0, rows);
  const tid = section.into(new Uint32Array(rows), 0, rows);
  const names = section.texts(rows);
  const role = section.into(new Uint8Array(rows), 0, rows);
  return names.map((name, row) => ({ process: process[row], tid: tid[row], name, role: role[row] }));
}

function parseSources(section: Columns): Source[] {
  const rows = section.rows();
  const files = section.into(new Int32Array(rows), 0, rows);
  return section.texts(rows).map((text, row) => ({ file: files[row] as TextIndex, text }));
}

// Everything after this trusts the row numbers.
function checkRows(
  texts: Texts,
  functions: FunctionColumns,
  frames: FrameColumns,
  stacks: StackColumns,
  samples: SampleColumns,
  threads: Thread[],
): void {
  const check = (what: string, values: ArrayLike<number>, rows: number, least: number) => {
    for (let row = 0; row < values.length; row++) {
      const value = values[row];
      if (value < least || value >= rows) throw new Error(`row ${row} of ${what} points nowhere`);
    }
  };
  check("function names", functions.name, texts.ends.length, 0);
  check("files", functions.file, texts.ends.length, -1);
  check("frames", frames.fn, functions.name.length, 0);
  check("stacks", stacks.frame, frames.fn.length, 0);
  check("samples", samples.stack, stacks.frame.length, -1);
  check("threads", samples.thread, threads.length, 0);
  for (let row = 0 as StackIndex; row < stacks.parent.length; row++) {
    if (stacks.parent[row] < -1) throw new Error(`stack ${row} has no such caller`);
  }
}
