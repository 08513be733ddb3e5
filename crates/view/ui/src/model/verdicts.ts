// What a comparison of all runs says of functions: which changes can be told from noise.

import type { FunctionIndex, NodeIndex } from "./indexes";
import { fileOf, functionCount, type Names, nameOf } from "./profile";
import { ROOT, type Tree } from "./tree";

// The surest first: the order of the table of changes.
export const STANDINGS = [
  "slower",
  "faster",
  "likely_slower",
  "likely_faster",
  "moved",
  "new",
  "gone",
  "noise",
] as const;
export type Standing = (typeof STANDINGS)[number];

// As it is in the page: a function is its name, file, line, standing, and that in words; where it was called
// otherwise before, also its name and file then.
export type SentChange = [string, string, number, Standing, string, string?, string?];

export interface SentComparison {
  headline: string;
  // What the earlier side cost of what the later does; 1 where shares are compared.
  before: number;
  functions: SentChange[];
}

export interface Verdict {
  standing: Standing;
  words: string;
}

const NOISE: Verdict = { standing: "noise", words: "no change that can be told from noise" };

const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

export class Verdicts {
  private readonly byFunction: (Verdict | null)[];

  constructor(
    names: Names,
    readonly sent: SentComparison,
  ) {
    const exact = new Map<string, Verdict>();
    const near = new Map<string, Verdict | null>(); // null: several go by it
    const add = (key: string, verdict: Verdict) => near.set(key, near.has(key) ? null : verdict);
    for (const [name, file, line, standing, words, oldName, oldFile] of sent.functions) {
      const verdict = { standing, words };
      exact.set(`${name}\n${file}\n${line}`, verdict);
      add(`${name}\n${lastPart(file)}`, verdict);
      if (oldName !== undefined) add(`${oldName}\n${lastPart(oldFile ?? "")}`, verdict);
    }
    this.byFunction = Array.from({ length: functionCount(names) }, (_, at) => {
      const fn = at as FunctionIndex;
      const [name, file] = [nameOf(names, fn), fileOf(names, fn)];
      const found = exact.get(`${name}\n${file}\n${names.functions.line[fn]}`);
      return found ?? near.get(`${name}\n${lastPart(file)}`) ?? null;
    });
  }

  of(fn: FunctionIndex): Verdict {
    return this.byFunction[fn] ?? NOISE;
  }

  isNoise(fn: FunctionIndex): boolean {
    return this.of(fn).standing === "noise";
  }

  // By node: whether its function changed by itself.
  own(tree: Tree): Uint8Array {
    const isChanged = (fn: number) => fn >= 0 && !this.isNoise(fn as FunctionIndex);
    return Uint8Array.from({ length: tree.size }, (_, node) => +isChanged(tree.fn[node as NodeIndex]));
  }

  // By node: whether it or something it calls changed. Callers carry the change of what they call.
  changed(tree: Tree): Uint8Array {
    const changed = this.own(tree);
    for (let node = (tree.size - 1) as NodeIndex; node > 0; node--)
      if (changed[node]) changed[tree.parent[node]] = 1;
    return changed;
  }

  // The same of a tree of callers: whether the function changed that they are the callers of.
  changedLeaves(tree: Tree): Uint8Array {
    const changed = this.own(tree);
    for (let node = 1 as NodeIndex; node < tree.size; node++) {
      if (tree.depth[node] > 1) changed[node] = changed[tree.parent[node]];
      else if (changed[node]) changed[ROOT] = 1;
    }
    return changed;
  }
}
