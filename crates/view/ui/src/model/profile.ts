// A recording as columns of numbers. Both sides of the page have the names; only the worker has
// stacks and samples.

import type {
  Column,
  EventIndex,
  FrameIndex,
  FunctionIndex,
  PackageIndex,
  Rows,
  StackIndex,
  TextIndex,
  ThreadIndex,
} from "./indexes";
import type { Packages } from "./packages";
import type { SampleColumns } from "./samples";
import type { StateKind } from "./states";
import { Category, ThreadRole } from "./tables";
import type { Watched } from "./watched";

export type Unit = "samples" | "nanoseconds" | "bytes" | "events";

// What made samples, and what their weights count.
export interface EventType {
  name: string;
  unit: Unit;
  rateHz: number; // 0: not known
}

// The event that is shown at first.
export const FIRST_EVENT = 0 as EventIndex;

// Functions that are none: the root of a tree, and samples of which nothing is known.
export const ALL = -1 as FunctionIndex;
export const NO_STACK = -2 as FunctionIndex;

export interface TextTable {
  readonly size: number;
  get(at: TextIndex): string;
}

// Texts that are decoded when they are first asked for: most names are never shown.
export class Texts implements TextTable {
  private readonly known = new Map<TextIndex, string>();

  constructor(
    readonly bytes: Uint8Array,
    readonly ends: Uint32Array,
  ) {}

  get size(): number {
    return this.ends.length;
  }

  get(at: TextIndex): string {
    let text = this.known.get(at);
    if (text === undefined) {
      text = decoder.decode(this.bytes.subarray(at === 0 ? 0 : this.ends[at - 1], this.ends[at]));
      this.known.set(at, text);
    }
    return text;
  }
}
const decoder = new TextDecoder();

export interface FunctionColumns {
  name: Column<FunctionIndex, TextIndex>;
  file: Column<FunctionIndex, TextIndex>; // -1 for none
  line: Column<FunctionIndex, number, Uint32Array>;
  column: Column<FunctionIndex, number, Uint32Array>;
  category: Column<FunctionIndex, number, Uint8Array>;
}

export interface Process {
  pid: number;
  name: string;
  command: string;
  version: string;
}
export interface Thread {
  process: number;
  tid: number;
  name: string;
  role: number;
}
export interface Source {
  file: TextIndex;
  text: string;
}

export interface About {
  app: string;
  host: string;
  started: number;
  durationNs: number;
}

// What the page needs to put names to numbers. Functions from `functions.name.length` on stand
// for whole packages.
export interface Names extends Packages {
  texts: TextTable;
  functions: FunctionColumns;
  processes: Process[];
  threads: Rows<ThreadIndex, Thread>;
  events: Rows<EventIndex, EventType>;
  about: About;
  routes: FunctionIndex[]; // those of requests, the first of none; empty where samples do not say it
}

export interface StackColumns {
  parent: Column<StackIndex, StackIndex>; // -1 for none
  frame: Column<StackIndex, FrameIndex>;
}
export interface FrameColumns {
  fn: Column<FrameIndex, FunctionIndex>;
  line: Column<FrameIndex, number, Uint32Array>;
  tier: Column<FrameIndex, number, Uint8Array>;
  kind: Column<FrameIndex, number, Uint8Array>;
}

interface StackTables extends Names {
  texts: Texts;
  stacks: StackColumns;
  frames: FrameColumns;
  baseThreads: number; // threads from here on are those of the base
  sources: Source[];
  states: StateKind[]; // which samples have, by their byte less one
  watched: Watched;
  end: number; // ns; of all events, so that a range of time means the same for each
}

// Everything that was recorded.
export interface Recording extends StackTables {
  samples: Rows<EventIndex, SampleColumns>;
  // The samples of an earlier recording to compare with, in the same tables; null where that has
  // none of the event.
  base: Rows<EventIndex, SampleColumns | null>;
}

// What is counted: weights of two events are never added, so a profile has the samples of one.
export interface Profile extends StackTables {
  event: EventType;
  samples: SampleColumns;
  base: SampleColumns | null;
}

export function selected(recording: Recording, event: EventIndex): Profile {
  return {
    ...recording,
    event: recording.events[event],
    samples: recording.samples[event],
    base: recording.base[event],
  };
}

export const functionCount = (names: Names): number => names.functions.name.length;

// The box that stands for a package among the functions.
export const packageBox = (names: Names, packageAt: PackageIndex): FunctionIndex =>
  (functionCount(names) + packageAt) as FunctionIndex;

// The threads of a process that belong to libuv's pool.
export function poolThreads(names: Names, process: number): ThreadIndex[] {
  const isOfPool = (thread: Thread) => thread.process === process && thread.role === ThreadRole.Pool;
  return ([...names.threads.keys()] as ThreadIndex[]).filter((at) => isOfPool(names.threads[at]));
}

export function nameOf(names: Names, fn: FunctionIndex): string {
  if (fn === ALL) return "all";
  if (fn < 0) return "[no stack]";
  const packageAt = (fn - functionCount(names)) as PackageIndex;
  if (packageAt >= 0) return names.packages[packageAt] ?? "?";
  return names.texts.get(names.functions.name[fn]) || "(anonymous)";
}

export function fileOf(names: Names, fn: FunctionIndex): string {
  if (fn < 0 || fn >= functionCount(names) || names.functions.file[fn] < 0) return "";
  return names.texts.get(names.functions.file[fn]);
}

// `file:line:column`, or the module of native code.
export function placeOf(names: Names, fn: FunctionIndex): string {
  const file = fileOf(names, fn);
  if (!file) return "";
  const line = names.functions.line[fn];
  const column = names.functions.column[fn];
  return line ? `${file}:${line}${column ? `:${column}` : ""}` : file;
}

// The last part of a place: what fits into a box or a narrow column.
export function shortPlace(names: Names, fn: FunctionIndex): string {
  return placeOf(names, fn)
    .replace(/^.*\//, "")
    .replace(/^(.*:\d+):\d+$/, "$1");
}

export function categoryOf(names: Names, fn: FunctionIndex): number {
  if (fn < 0) return Category.Unknown;
  const packageAt = (fn - functionCount(names)) as PackageIndex;
  if (packageAt < 0) return names.functions.category[fn];
  return names.packageCategory[packageAt] ?? Category.Unknown;
}
