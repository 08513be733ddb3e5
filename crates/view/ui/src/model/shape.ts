// The paths of functions that a recording's stacks follow, each once, without any weights. It
// depends on what is hidden and transformed but not on time or threads, so it is built seldom.
// Nothing here recurses: stacks can be deeper than the browser's own.

import { ASYNC } from "./frames";
import { type Column, column, type FunctionIndex, type PathIndex, type StackIndex } from "./indexes";
import { ALL, NO_STACK, type Profile } from "./profile";
import { Category } from "./tables";

export const ROOT_PATH = 0 as PathIndex;
export const NO_PATH = -1 as PathIndex;

export interface Shape {
  size: number; // nodes; node 0 is the root, parents come before children
  fn: Column<PathIndex, FunctionIndex>;
  parent: Column<PathIndex, PathIndex>;
  nodeOf: Column<StackIndex, PathIndex>; // by stack; -1 where its samples are left out
  noStack: PathIndex; // the node of samples without a stack; -1 where they are left out
}

// Makes nodes, one for each pair of parent and function.
export class Paths {
  size = 1;
  fn: Shape["fn"];
  parent: Shape["parent"];
  private slots: Int32Array; // open addressing; 0 is free, because the root is never a child
  private mask: number;

  constructor(expected: number) {
    const capacity = Math.max(16, expected + 2);
    this.fn = column(new Int32Array(capacity));
    this.parent = column(new Int32Array(capacity));
    let slots = 32;
    while (slots < capacity * 2) slots *= 2;
    this.slots = new Int32Array(slots);
    this.mask = slots - 1;
    this.fn[ROOT_PATH] = ALL;
    this.parent[ROOT_PATH] = NO_PATH;
  }

  child(parent: PathIndex, fn: FunctionIndex): PathIndex {
    let slot = hash(parent, fn) & this.mask;
    for (;;) {
      const node = this.slots[slot] as PathIndex;
      if (node === 0) break;
      if (this.parent[node] === parent && this.fn[node] === fn) return node;
      slot = (slot + 1) & this.mask;
    }
    if (this.size === this.fn.length) return this.grown(parent, fn);
    const node = this.size++ as PathIndex;
    this.slots[slot] = node;
    this.fn[node] = fn;
    this.parent[node] = parent;
    return node;
  }

  private grown(parent: PathIndex, fn: FunctionIndex): PathIndex {
    const larger = new Paths(this.fn.length * 2);
    for (let node = 1 as PathIndex; node < this.size; node++) larger.child(this.parent[node], this.fn[node]);
    Object.assign(this, larger);
    return this.child(parent, fn);
  }

  shape(nodeOf: Shape["nodeOf"], noStack: PathIndex): Shape {
    return {
      size: this.size,
      fn: this.fn.slice(0, this.size),
      parent: this.parent.slice(0, this.size),
      nodeOf,
      noStack,
    };
  }
}

function hash(parent: number, fn: number): number {
  let mixed = Math.imul(parent, 0x9e3779b1) ^ Math.imul(fn + 3, 0x85ebca6b);
  mixed ^= mixed >>> 15;
  mixed = Math.imul(mixed, 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

// Stacks of the same functions become one node, whatever their lines and tiers. Internal frames
// are left out unless asked for, async ones if asked for; their time goes to their callers.
export function shapeOf(profile: Profile, hasInternals: boolean, hasAsync = true): Shape {
  const { stacks, frames, functions } = profile;
  const rows = stacks.parent.length;
  const paths = new Paths(rows);
  const nodeOf = column<Shape["nodeOf"]>(new Int32Array(rows));
  for (let row = 0 as StackIndex; row < rows; row++) {
    const below = stacks.parent[row] < 0 ? ROOT_PATH : nodeOf[stacks.parent[row]];
    const fn = frames.fn[stacks.frame[row]];
    const isHidden =
      (!hasInternals && functions.category[fn] === Category.Internal) ||
      (!hasAsync && frames.kind[stacks.frame[row]] === ASYNC);
    nodeOf[row] = isHidden ? below : paths.child(below, fn);
  }
  const noStack = paths.child(ROOT_PATH, NO_STACK);
  return paths.shape(nodeOf, noStack);
}

// The same stacks over other nodes: `mapped` says for each old node its new one, or -1.
export function moved(shape: Shape, paths: Paths, mapped: Column<PathIndex, PathIndex>): Shape {
  const nodeOf = column<Shape["nodeOf"]>(new Int32Array(shape.nodeOf.length));
  for (let row = 0 as StackIndex; row < nodeOf.length; row++) {
    const node = shape.nodeOf[row];
    nodeOf[row] = node < 0 ? NO_PATH : mapped[node];
  }
  return paths.shape(nodeOf, shape.noStack < 0 ? NO_PATH : mapped[shape.noStack]);
}
