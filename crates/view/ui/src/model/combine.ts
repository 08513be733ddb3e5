// Puts an earlier profile beside a recording, so that one tree can count both.

import { joined } from "./columns";
import { packagesOf } from "./packages";
import { type Names, nameOf, type Profile, Texts } from "./profile";
import type { SampleColumns } from "./samples";

// Functions are the same when name and file are; those without a name also need their line.
function keyOf(names: Names, fn: number): string {
  const name = nameOf(names, fn);
  const { file, line } = names.functions;
  const where = file[fn] < 0 ? "" : names.texts.get(file[fn]);
  return name === "(anonymous)" ? `${name}\n${where}\n${line[fn]}` : `${name}\n${where}`;
}

export function combined(profile: Profile, base: Profile): Profile {
  const first = profile.functions.name.length;
  const known = new Map<string, number>();
  for (let fn = first - 1; fn >= 0; fn--) known.set(keyOf(profile, fn), fn);
  const added: number[] = []; // functions of the base alone
  const fnOf = new Int32Array(base.functions.name.length);
  for (let fn = 0; fn < fnOf.length; fn++) {
    const key = keyOf(base, fn);
    let same = known.get(key);
    if (same === undefined) {
      same = first + added.push(fn) - 1;
      known.set(key, same);
    }
    fnOf[fn] = same;
  }
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
    base: movedSamples(profile, base),
  };
}

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

function joinedFunctions(profile: Profile, base: Profile, added: number[]) {
  const shift = profile.texts.ends.length;
  const name = joined(
    profile.functions.name,
    Int32Array.from(added, (fn) => base.functions.name[fn] + shift),
  );
  const file = joined(
    profile.functions.file,
    Int32Array.from(added, (fn) => {
      const text = base.functions.file[fn];
      return text < 0 ? -1 : text + shift;
    }),
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

function joinedFrames(profile: Profile, base: Profile, fnOf: Int32Array) {
  return {
    fn: joined(
      profile.frames.fn,
      base.frames.fn.map((fn) => fnOf[fn]),
    ),
    line: joined(profile.frames.line, base.frames.line),
    tier: joined(profile.frames.tier, base.frames.tier),
    isInlined: joined(profile.frames.isInlined, base.frames.isInlined),
  };
}

function joinedStacks(profile: Profile, base: Profile) {
  const rows = profile.stacks.parent.length;
  return {
    parent: joined(
      profile.stacks.parent,
      base.stacks.parent.map((row) => (row < 0 ? -1 : row + rows)),
    ),
    frame: joined(
      profile.stacks.frame,
      base.stacks.frame.map((frame) => frame + profile.frames.fn.length),
    ),
  };
}

function movedSamples(profile: Profile, base: Profile): SampleColumns {
  const rows = profile.stacks.parent.length;
  return {
    ...base.samples,
    thread: Int32Array.from(base.samples.thread, (thread) => thread + profile.threads.length),
    stack: base.samples.stack.map((stack) => (stack < 0 ? -1 : stack + rows)),
  };
}
