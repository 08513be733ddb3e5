// Weights by line of one file.

import type { StackIndex, TextIndex } from "./indexes";
import type { Profile } from "./profile";

export interface LineWeights {
  line: Uint32Array;
  self: Float64Array;
  total: Float64Array;
  baseSelf: Float64Array | null; // of the same lines before, where two sides are compared
}

export function lineWeights(
  profile: Profile,
  own: Float64Array,
  file: TextIndex,
  base: Float64Array | null = null,
): LineWeights {
  const { stacks, frames, functions } = profile;
  const rows = stacks.parent.length;
  const totals = own.slice(0, rows);
  for (let row = (rows - 1) as StackIndex; row >= 0; row--)
    if (stacks.parent[row] >= 0) totals[stacks.parent[row]] += totals[row];
  const lineAt = (row: StackIndex) => {
    const frame = stacks.frame[row];
    return functions.file[frames.fn[frame]] === file ? frames.line[frame] : 0;
  };
  const self = new Map<number, number>();
  const total = new Map<number, number>();
  const add = (to: Map<number, number>, line: number, weight: number) =>
    to.set(line, (to.get(line) ?? 0) + weight);
  for (let row = 0 as StackIndex; row < rows; row++) {
    const line = lineAt(row);
    if (line === 0 || totals[row] === 0) continue;
    add(self, line, own[row]);
    // A line that is on the stack twice counts once.
    let above = stacks.parent[row];
    while (above >= 0 && lineAt(above) !== line) above = stacks.parent[above];
    if (above < 0) add(total, line, totals[row]);
  }
  const before = new Map<number, number>();
  for (let row = 0 as StackIndex; base && row < rows; row++) {
    const line = base[row] === 0 ? 0 : lineAt(row);
    if (line === 0) continue;
    add(before, line, base[row]);
    add(self, line, 0);
  }
  const lines = [...self.keys()].sort((left, right) => left - right);
  return {
    line: Uint32Array.from(lines),
    self: Float64Array.from(lines, (line) => self.get(line)!),
    total: Float64Array.from(lines, (line) => total.get(line) ?? 0),
    baseSelf: base && Float64Array.from(lines, (line) => before.get(line) ?? 0),
  };
}

// The files that hold JavaScript with lines, the heaviest first.
export function filesOf(profile: Profile, own: Float64Array): { file: TextIndex; self: number }[] {
  const { stacks, frames, functions } = profile;
  const sums = new Map<TextIndex, number>();
  for (let row = 0 as StackIndex; row < stacks.parent.length; row++) {
    const frame = stacks.frame[row];
    const file = functions.file[frames.fn[frame]];
    if (file >= 0 && frames.line[frame] > 0) sums.set(file, (sums.get(file) ?? 0) + own[row]);
  }
  return [...sums].map(([file, self]) => ({ file, self })).sort((left, right) => right.self - left.self);
}
