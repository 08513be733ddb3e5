// A tree with weights, flat and in preorder: a subtree is the range from a node to its `end`.

import { categoryOf, functionCount, GC, type Names, type Profile } from "./profile";
import { rowAt, type SampleColumns, weightOf } from "./samples";
import type { Shape } from "./shape";

export interface Tree {
  size: number;
  rows: number; // how many levels there are
  fn: Int32Array;
  parent: Int32Array;
  depth: Uint16Array;
  end: Int32Array;
  start: Float64Array; // where its box begins, in weights
  self: Float64Array;
  total: Float64Array;
  tier: Uint8Array;
  isInlined: Uint8Array;
  // What the same node weighs in the profile or range compared with.
  baseSelf: Float64Array | null;
  baseTotal: Float64Array | null;
}

export type Order = "heavy" | "name";

export interface Range { from: number; to: number } // ns

export interface Choice {
  threads: ReadonlySet<number> | null; // null for all
  range: Range | null;
}

export function threadMask(profile: Profile, threads: ReadonlySet<number> | null): Uint8Array | null {
  if (!threads) return null;
  const mask = new Uint8Array(profile.threads.length);
  for (const thread of threads) mask[thread] = 1;
  return mask;
}

// What each stack weighs by itself in the chosen samples; the last place is for samples without.
export function ownWeights(profile: Profile, samples: SampleColumns, choice: Choice): Float64Array {
  const own = new Float64Array(profile.stacks.parent.length + 1);
  const none = own.length - 1;
  const mask = threadMask(profile, choice.threads);
  const from = choice.range ? rowAt(samples, choice.range.from) : 0;
  const to = choice.range ? rowAt(samples, choice.range.to) : samples.time.length;
  for (let row = from; row < to; row++) {
    if (mask && !mask[samples.thread[row]]) continue;
    const stack = samples.stack[row];
    own[stack < 0 ? none : stack] += weightOf(samples, row);
  }
  return own;
}

// Weights of stacks brought to the nodes of a shape, callers included.
export interface NodeWeights { self: Float64Array; total: Float64Array }

export function nodeWeights(shape: Shape, own: Float64Array): NodeWeights {
  const self = new Float64Array(shape.size);
  const none = own.length - 1;
  for (let row = 0; row < none; row++) {
    const node = shape.nodeOf[row];
    if (node >= 0 && own[row] !== 0) self[node] += own[row];
  }
  if (shape.noStack >= 0) self[shape.noStack] += own[none];
  const total = self.slice();
  for (let node = shape.size - 1; node > 0; node--) total[shape.parent[node]] += total[node];
  return { self, total };
}

export interface Marks { tier: Uint8Array; isInlined: Uint8Array }

// The tier of a node is that of the heaviest stack that became it in the whole recording; it
// counts as inlined when every one of them is.
export function marksOf(profile: Profile, shape: Shape, own: Float64Array): Marks {
  const { stacks, frames } = profile;
  const totals = own.slice(0, stacks.parent.length);
  for (let row = totals.length - 1; row >= 0; row--) {
    if (stacks.parent[row] >= 0) totals[stacks.parent[row]] += totals[row];
  }
  const tier = new Uint8Array(shape.size);
  const isInlined = new Uint8Array(shape.size);
  const isCompiled = new Uint8Array(shape.size); // on its own, somewhere
  const heaviest = new Float64Array(shape.size);
  for (let row = 0; row < totals.length; row++) {
    const node = shape.nodeOf[row];
    const frame = stacks.frame[row];
    // A hidden frame shares its node with its caller, whose marks count.
    if (node < 0 || totals[row] === 0 || shape.fn[node] !== frames.fn[frame]) continue;
    if (!frames.isInlined[frame]) isCompiled[node] = 1;
    isInlined[node] = isCompiled[node] ? 0 : 1;
    if (totals[row] > heaviest[node]) {
      heaviest[node] = totals[row];
      tier[node] = frames.tier[frame];
    }
  }
  return { tier, isInlined };
}

export function treeOf(
  shape: Shape, marks: Marks, own: Float64Array, base: Float64Array | null, order: Order, byName: Int32Array,
): Tree {
  const weights = nodeWeights(shape, own);
  const baseWeights = base ? nodeWeights(shape, base) : null;
  return flattened({
    size: shape.size, fn: shape.fn, parent: shape.parent, ...weights, ...marks,
    baseSelf: baseWeights?.self ?? null, baseTotal: baseWeights?.total ?? null,
  }, order, byName);
}

// Nodes in any order in which parents come first.
export interface Nodes {
  size: number;
  fn: Int32Array;
  parent: Int32Array;
  self: Float64Array;
  total: Float64Array;
  tier: Uint8Array | null;
  isInlined: Uint8Array | null;
  baseSelf: Float64Array | null;
  baseTotal: Float64Array | null;
}

const isThere = (nodes: Nodes, node: number): boolean =>
  nodes.total[node] > 0 || (nodes.baseTotal !== null && nodes.baseTotal[node] > 0);

// The children of every node side by side, in order; nodes without weight are left out.
function sortedChildren(nodes: Nodes, order: Order, byName: Int32Array): { first: Int32Array; children: Int32Array } {
  const { size, parent, total, fn } = nodes;
  const first = new Int32Array(size + 1);
  for (let node = 1; node < size; node++) if (isThere(nodes, node)) first[parent[node] + 1]++;
  for (let node = 0; node < size; node++) first[node + 1] += first[node];
  const children = new Int32Array(first[size]);
  const filled = first.slice();
  for (let node = 1; node < size; node++) if (isThere(nodes, node)) children[filled[parent[node]]++] = node;
  const compare = order === "heavy"
    ? (left: number, right: number) => total[right] - total[left] || left - right
    : (left: number, right: number) => nameRank(byName, fn[left]) - nameRank(byName, fn[right]);
  for (let node = 0; node < size; node++) sortPart(children, first[node], first[node + 1], compare);
  return { first, children };
}

const nameRank = (byName: Int32Array, fn: number): number => (fn < 0 ? fn : byName[fn] ?? fn);

function sortPart(
  values: Int32Array, from: number, to: number, compare: (left: number, right: number) => number,
): void {
  if (to - from < 2) return;
  if (to - from > 12) {
    values.subarray(from, to).sort(compare);
    return;
  }
  // Most nodes have few children, for which a sort of one's own costs less than a call.
  for (let at = from + 1; at < to; at++) {
    const value = values[at];
    let place = at;
    for (; place > from && compare(values[place - 1], value) > 0; place--) values[place] = values[place - 1];
    values[place] = value;
  }
}

export function flattened(nodes: Nodes, order: Order, byName: Int32Array): Tree {
  const { first, children } = sortedChildren(nodes, order, byName);
  const size = children.length + 1;
  const tree: Tree = {
    size, rows: 1, fn: new Int32Array(size), parent: new Int32Array(size), depth: new Uint16Array(size),
    end: new Int32Array(size), start: new Float64Array(size), self: new Float64Array(size),
    total: new Float64Array(size), tier: new Uint8Array(size), isInlined: new Uint8Array(size),
    baseSelf: nodes.baseSelf && new Float64Array(size), baseTotal: nodes.baseTotal && new Float64Array(size),
  };
  const waiting = new Int32Array(size);
  const placeOf = new Int32Array(nodes.size);
  const next = new Float64Array(size); // where the next child of a place begins
  let left = 1;
  waiting[0] = 0;
  for (let place = 0; left > 0; place++) {
    const node = waiting[--left];
    placeOf[node] = place;
    copyNode(nodes, node, tree, place, place === 0 ? -1 : placeOf[nodes.parent[node]], next);
    for (let at = first[node + 1] - 1; at >= first[node]; at--) waiting[left++] = children[at];
  }
  for (let place = size - 1; place >= 0; place--) {
    tree.end[place] = Math.max(tree.end[place], place + 1);
    const below = tree.parent[place];
    if (below >= 0) tree.end[below] = Math.max(tree.end[below], tree.end[place]);
  }
  return tree;
}

function copyNode(nodes: Nodes, node: number, tree: Tree, place: number, below: number, next: Float64Array): void {
  tree.fn[place] = nodes.fn[node];
  tree.parent[place] = below;
  tree.self[place] = nodes.self[node];
  tree.total[place] = nodes.total[node];
  if (nodes.tier) tree.tier[place] = nodes.tier[node];
  if (nodes.isInlined) tree.isInlined[place] = nodes.isInlined[node];
  if (tree.baseSelf) tree.baseSelf[place] = nodes.baseSelf![node];
  if (tree.baseTotal) tree.baseTotal[place] = nodes.baseTotal![node];
  if (below < 0) return;
  const depth = Math.min(tree.depth[below] + 1, 0xffff);
  tree.depth[place] = depth;
  if (depth >= tree.rows) tree.rows = depth + 1;
  tree.start[place] = next[place] = next[below];
  next[below] += tree.total[place];
}

// The functions from the root to a node, without the root.
export function pathTo(tree: Tree, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at > 0; at = tree.parent[at]) path.push(tree.fn[at]);
  return path.reverse();
}

export interface Shares { javascript: number; native: number; kernel: number; gc: number; idle: number; unknown: number }

const SHARE_OF: (keyof Shares)[] = [
  "javascript", "javascript", "javascript", "javascript", "javascript", "javascript", "gc", "native", "kernel",
  "idle", "unknown", "javascript",
];

// What the samples were doing. A sample is garbage collection when any frame is; else its leaf
// decides.
export function sharesOf(names: Names, tree: Tree): Shares {
  const shares: Shares = { javascript: 0, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0 };
  const inGc = new Uint8Array(tree.size);
  const kinds = Int8Array.from({ length: functionCount(names) + names.packages.length }, (_, fn) => categoryOf(names, fn));
  for (let node = 0; node < tree.size; node++) {
    const fn = tree.fn[node];
    const kind = fn < 0 ? -1 : kinds[fn];
    inGc[node] = kind === GC || (node > 0 && inGc[tree.parent[node]]) ? 1 : 0;
    shares[inGc[node] ? "gc" : SHARE_OF[kind] ?? "unknown"] += tree.self[node];
  }
  return shares;
}
