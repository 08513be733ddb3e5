// Puts an earlier profile beside a recording, so that one tree can count both.

import { joined } from "./columns";
import { type Column, column, type EventIndex, type FunctionIndex } from "./indexes";
import { packagesOf } from "./packages";
import {
  FIRST_EVENT,
  type FrameColumns,
  type FunctionColumns,
  type Names,
  nameOf,
  type Recording,
  type StackColumns,
  Texts,
} from "./profile";
import type { SampleColumns } from "./samples";

// Functions are the same when name and file are; those without a name also need their line.
function keyOf(names: Names, fn: FunctionIndex): string {
  const name = nameOf(names, fn);
  const { file, line } = names.functions;
  const where = file[fn] < 0 ? "" : names.texts.get(file[fn]);
  return name === "(anonymous)" ? `${name}\n${where}\n${line[fn]}` : `${name}\n${where}`;
}

export function combined(profile: Recording, base: Recording): Recording {
  const first = profile.functions.name.length;
  const known = new Map<string, FunctionIndex>();
  for (let fn = (first - 1) as FunctionIndex; fn >= 0; fn--) known.set(keyOf(profile, fn), fn);
  const added: FunctionIndex[] = []; // functions of the base alone
  const fnOf = column<Column<FunctionIndex, FunctionIndex>>(new Int32Array(base.functions.name.length));
  for (let fn = 0 as FunctionIndex; fn < fnOf.length; fn++) {
    const key = keyOf(base, fn);
    let same = known.get(key);
    if (same === undefined) {
      same = (first + added.push(fn) - 1) as FunctionIndex;
      known.set(key, same);
    }
    fnOf[fn] = same;
  }
  const routes = [...profile.routes];
  const routeOf = base.routes.map((fn) => {
    const at = routes.indexOf(fnOf[fn]);
    return at < 0 ? routes.push(fnOf[fn]) - 1 : at;
  });
  // Without routes of its own the recording has none for no request either.
  const hasRoutes = profile.routes.length > 0;
  const texts = joinedTexts(profile.texts, base.texts);
  const functions = joinedFunctions(profile, base, added);
  return {
    ...profile,
    texts,
    functions,
    ...packagesOf(texts, functions),
    frames: joinedFrames(profile, base, fnOf),
    stacks: joinedStacks(profile, base),
    threads: [
      ...profile.threads,
      ...base.threads.map((thread) => ({ ...thread, process: thread.process + profile.processes.length })),
    ],
    processes: [...profile.processes, ...base.processes],
    baseThreads: profile.threads.length,
    routes: hasRoutes ? routes : [],
    base: profile.events.map((_, event) => {
      const same = sameEvent(profile, base, event as EventIndex);
      return same === null ? null : movedSamples(profile, base.samples[same], hasRoutes ? routeOf : []);
    }),
  };
}

// A row number after `by` others were put before its table; -1 stays none.
const shifted = (row: number, by: number): number => (row < 0 ? -1 : row + by);

function joinedTexts(left: Texts, right: Texts): Texts {
  const bytes = new Uint8Array(left.bytes.length + right.bytes.length);
  bytes.set(left.bytes);
  bytes.set(right.bytes, left.bytes.length);
  const ends = new Uint32Array(left.ends.length + right.ends.length);
  ends.set(left.ends);
  ends.set(
    right.ends.map((end) => end + left.bytes.length),
    left.ends.length,
  );
  return new Texts(bytes, ends);
}

function joinedFunctions(profile: Recording, base: Recording, added: FunctionIndex[]): FunctionColumns {
  const shift = profile.texts.ends.length;
  const name = joined(
    profile.functions.name,
    column(Int32Array.from(added, (fn) => base.functions.name[fn] + shift)),
  );
  const file = joined(
    profile.functions.file,
    column(Int32Array.from(added, (fn) => shifted(base.functions.file[fn], shift))),
  );
  return {
    name,
    file,
    line: joined(
      profile.functions.line,
      Uint32Array.from(added, (fn) => base.functions.line[fn]),
    ),
    column: joined(
      profile.functions.column,
      Uint32Array.from(added, (fn) => base.functions.column[fn]),
    ),
    category: joined(
      profile.functions.category,
      Uint8Array.from(added, (fn) => base.functions.category[fn]),
    ),
  };
}

function joinedFrames(
  profile: Recording,
  base: Recording,
  fnOf: Column<FunctionIndex, FunctionIndex>,
): FrameColumns {
  return {
    fn: joined(profile.frames.fn, column(base.frames.fn.map((fn) => fnOf[fn as FunctionIndex]))),
    line: joined(profile.frames.line, base.frames.line),
    tier: joined(profile.frames.tier, base.frames.tier),
    kind: joined(profile.frames.kind, base.frames.kind),
  };
}

function joinedStacks(profile: Recording, base: Recording): StackColumns {
  const rows = profile.stacks.parent.length;
  return {
    parent: joined(profile.stacks.parent, column(base.stacks.parent.map((row) => shifted(row, rows)))),
    frame: joined(
      profile.stacks.frame,
      column(base.stacks.frame.map((frame) => frame + profile.frames.fn.length)),
    ),
  };
}

// The event of the base to compare an event with: the one of its name and unit. The first events
// are what is shown of both, so they are compared whatever they are called.
function sameEvent(profile: Recording, base: Recording, event: EventIndex): EventIndex | null {
  const { name, unit } = profile.events[event];
  const at = base.events.findIndex((other) => other.name === name && other.unit === unit);
  if (at >= 0) return at as EventIndex;
  return event === FIRST_EVENT ? FIRST_EVENT : null;
}

function movedSamples(profile: Recording, samples: SampleColumns, routeOf: number[]): SampleColumns {
  const rows = profile.stacks.parent.length;
  return {
    ...samples,
    thread: column(Int32Array.from(samples.thread, (thread) => thread + profile.threads.length)),
    stack: column(samples.stack.map((stack) => shifted(stack, rows))),
    state: null, // its kinds are others
    route: samples.route?.map((route) => routeOf[route] ?? 0) ?? null,
  };
}
