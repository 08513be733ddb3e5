// A slow and plain way to count, to compare the fast one with.

import { column, type FunctionIndex, type StackIndex } from "../src/model/indexes";
import { packagesOf } from "../src/model/packages";
import { type FunctionColumns, NO_STACK, type Profile, type Recording, Texts } from "../src/model/profile";
import { weightOf } from "../src/model/samples";

export interface NaiveNode {
  self: number;
  total: number;
  children: Map<FunctionIndex, NaiveNode>;
}

const node = (): NaiveNode => ({ self: 0, total: 0, children: new Map() });

// The functions of a stack from the root.
export function pathOf(profile: Profile, stack: StackIndex): FunctionIndex[] {
  const path: FunctionIndex[] = [];
  for (let at = stack; at >= 0; at = profile.stacks.parent[at])
    path.push(profile.frames.fn[profile.stacks.frame[at]]);
  return path.reverse();
}

// Counts every sample along its path; `rewrite` changes the path or drops the sample with null.
export function naiveTree(
  profile: Profile,
  isChosen: (row: number) => boolean,
  rewrite: (path: FunctionIndex[]) => FunctionIndex[] | null = (path) => path,
): NaiveNode {
  const root = node();
  for (let row = 0; row < profile.samples.time.length; row++) {
    if (!isChosen(row)) continue;
    const stack = profile.samples.stack[row];
    const path = rewrite(stack < 0 ? [NO_STACK] : pathOf(profile, stack));
    if (path === null) continue;
    const weight = weightOf(profile.samples, row);
    let at = root;
    at.total += weight;
    for (const fn of path) {
      let next = at.children.get(fn);
      if (!next) at.children.set(fn, (next = node()));
      next.total += weight;
      at = next;
    }
    at.self += weight;
  }
  return root;
}

// Numbers that are the same in every run.
export function random(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

function textsOf(texts: string[]): Texts {
  const encoder = new TextEncoder();
  const parts = texts.map((text) => encoder.encode(text));
  const ends = new Uint32Array(texts.length);
  let end = 0;
  parts.forEach((part, at) => (ends[at] = end += part.length));
  const bytes = new Uint8Array(end);
  parts.forEach((part, at) => bytes.set(part, ends[at] - part.length));
  return new Texts(bytes, ends);
}

export function randomProfile(seed: number): Profile {
  const next = random(seed * 2654435761);
  const functions = 2 + next(8);
  const texts = textsOf([
    ...Array.from({ length: functions }, (_, at) => `f${at}`),
    "/a/x.js",
    "/a/node_modules/qs/i.js",
  ]);
  const columns: FunctionColumns = {
    name: column(Int32Array.from({ length: functions }, (_, at) => at)),
    file: column(Int32Array.from({ length: functions }, () => functions + next(2))),
    line: Uint32Array.from({ length: functions }, () => next(50)),
    column: new Uint32Array(functions),
    category: Uint8Array.from({ length: functions }, () => next(12)),
  };
  const frames = functions * 2;
  const stacks = 1 + next(60);
  const samples = next(200);
  let time = 0;
  return {
    texts,
    functions: columns,
    ...packagesOf(texts, columns),
    frames: {
      fn: column(Int32Array.from({ length: frames }, () => next(functions))),
      line: Uint32Array.from({ length: frames }, () => next(6)),
      tier: Uint8Array.from({ length: frames }, () => next(5)),
      kind: Uint8Array.from({ length: frames }, () => next(3)),
    },
    stacks: {
      parent: column(Int32Array.from({ length: stacks }, (_, row) => (row === 0 ? -1 : next(row + 1) - 1))),
      frame: column(Int32Array.from({ length: stacks }, () => next(frames))),
    },
    samples: {
      time: Float64Array.from({ length: samples }, () => (time += 50 + next(1000))),
      tick: 1 + next(3),
      weight: (["one", "untilNext", Float64Array.from({ length: samples }, () => next(5))] as const)[next(3)],
      lastWeight: 50 + next(1000),
      thread: column(Uint16Array.from({ length: samples }, () => next(3))),
      stack: column(Int32Array.from({ length: samples }, () => next(stacks + 1) - 1)),
    },
    processes: [{ pid: 1, name: "p", command: "", version: "" }],
    threads: [0, 1, 2].map((tid) => ({ process: 0, tid, name: `t${tid}`, role: 0 })),
    events: [{ name: "cpu-clock", unit: "samples", rateHz: 0 }],
    event: { name: "cpu-clock", unit: "samples", rateHz: 0 },
    about: { app: "", host: "", started: 0, durationNs: time },
    base: null,
    end: Math.max(1, time * 3 + 1),
    baseThreads: 3,
    sources: [],
    states: [],
    routes: [],
    watched: { loops: [], pools: [] },
  };
}

// A recording of one event.
export const recordingOf = (profile: Profile): Recording => ({
  ...profile,
  samples: [profile.samples],
  base: [profile.base],
});

// A profile of one sample, by the categories of its frames from the root.
export function profileOf(path: number[]): Profile {
  const texts = textsOf(path.map((_, at) => `f${at}`));
  const rows = Int32Array.from(path, (_, at) => at);
  const columns: FunctionColumns = {
    name: column(rows),
    file: column(new Int32Array(path.length).fill(-1)),
    line: new Uint32Array(path.length),
    column: new Uint32Array(path.length),
    category: Uint8Array.from(path),
  };
  const marks = { tier: new Uint8Array(path.length), kind: new Uint8Array(path.length) };
  return {
    ...randomProfile(1),
    texts,
    functions: columns,
    ...packagesOf(texts, columns),
    frames: { fn: column(rows), line: new Uint32Array(path.length), ...marks },
    stacks: { parent: column(rows.map((row) => row - 1)), frame: column(rows) },
    samples: {
      time: Float64Array.of(0),
      tick: 1,
      weight: "one",
      lastWeight: 0,
      thread: column(new Uint16Array(1)),
      stack: column(Int32Array.of(path.length - 1)),
    },
  };
}
