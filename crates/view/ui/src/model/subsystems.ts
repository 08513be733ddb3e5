// Samples by whose code they are in. Rust divides the functions; a search for `in:gc` or the key of
// another subsystem finds its functions, and weighs what the summary weighs.

import type { FunctionIndex, NodeIndex } from "./indexes";
import { SUBSYSTEM_KEYS, Subsystem } from "./tables";
import { ROOT, type Tree } from "./tree";

// The subsystem that a search asks for, if it asks for one.
export function subsystemIn(query: string): Subsystem | null {
  const found = /^in:([a-z0-9_]+)$/.exec(query.trim());
  const at = found ? SUBSYSTEM_KEYS.indexOf(found[1]) : -1;
  return at < 0 ? null : at;
}

// A letter for each function; a base has others, which are in none.
export class Division {
  constructor(private readonly letters: string) {}

  of(fn: FunctionIndex): Subsystem {
    const code = this.letters.charCodeAt(fn) - "A".charCodeAt(0);
    return code >= 0 ? code : Subsystem.Unknown;
  }

  // One byte for each of so many functions.
  hits(wanted: Subsystem, count: number): Uint8Array {
    const hits = new Uint8Array(count);
    const known = Math.min(count, this.letters.length);
    for (let fn = 0 as FunctionIndex; fn < known; fn++) hits[fn] = this.of(fn) === wanted ? 1 : 0;
    return hits;
  }

  // What a subsystem weighs: the collector and compilers own all that they call, others what their
  // functions have themselves.
  weight(tree: Tree, wanted: Subsystem): number {
    let weight = wanted === Subsystem.Unknown ? tree.self[ROOT] : 0;
    let compiledUntil = 0;
    for (let at = (ROOT + 1) as NodeIndex; at < tree.size; ) {
      const of = this.of(tree.fn[at]);
      if (of === Subsystem.Gc) {
        if (wanted === of) weight += tree.total[at];
        at = tree.end[at];
        continue;
      }
      if (of === Subsystem.Compilation) compiledUntil = Math.max(compiledUntil, tree.end[at]);
      if ((at < compiledUntil ? Subsystem.Compilation : of) === wanted) weight += tree.self[at];
      at++;
    }
    return weight;
  }
}
