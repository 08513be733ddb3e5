// A tree with weights, flat and in preorder: a subtree is the range from a node to its `end`.

import {
  type Column,
  column,
  type FunctionIndex,
  type NodeIndex,
  type PathIndex,
  plain,
  type StackIndex,
  type ThreadIndex,
} from "./indexes";
import { categoryOf, type EventType, functionCount, type Names, type Profile } from "./profile";
import { rowAt, type SampleColumns, weightOf } from "./samples";
import type { Shape } from "./shape";
import { SHARE_OF_CATEGORY, SHARE_PARTS } from "./tables";

export const ROOT = 0 as NodeIndex;
export type NodeWeight = Column<NodeIndex, number, Float64Array>;
export type NodeMark = Column<NodeIndex, number, Uint8Array>;

export interface Tree {
  size: number;
  event: EventType;
  rows: number; // how many levels there are
  fn: Column<NodeIndex, FunctionIndex>;
  parent: Column<NodeIndex, NodeIndex>; // -1 for the root
  depth: Column<NodeIndex, number, Uint16Array>;
  end: Column<NodeIndex, NodeIndex>;
  start: NodeWeight; // where its box begins, in weights
  self: NodeWeight;
  total: NodeWeight;
  tier: NodeMark;
  kind: NodeMark; // INLINED, ASYNC
  // What the same node weighs in the profile or range compared with.
  baseSelf: NodeWeight | null;
  baseTotal: NodeWeight | null;
  // What threads mostly did in it; only where that was asked for.
  state?: NodeMark | null;
}

export type Order = "heavy" | "name";

export interface Range {
  from: number;
  to: number;
} // ns

export interface Choice {
  threads: ReadonlySet<ThreadIndex> | null; // null for all
  range: Range | null;
  only?: StateMask | null; // null for all states
  route?: number | null; // null for all routes
}

export function threadMask(profile: Profile, threads: ReadonlySet<ThreadIndex> | null): Uint8Array | null {
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
  const { stack, thread, time, tick } = samples;
  if (choice.only || typeof choice.route === "number") return ownChosen(samples, choice, mask, own, from, to);
  // The commonest rule goes without a call for each of millions of samples.
  const last = samples.weight === "untilNext" ? Math.min(to, time.length - 1) : from;
  for (let row = from; row < last; row++) {
    if (mask && !mask[thread[row]]) continue;
    own[stack[row] < 0 ? none : stack[row]] += (time[row + 1] - time[row]) * tick;
  }
  for (let row = Math.max(from, last); row < to; row++) {
    if (mask && !mask[thread[row]]) continue;
    own[stack[row] < 0 ? none : stack[row]] += weightOf(samples, row);
  }
  return own;
}

// Which samples are in a state, by their byte and whether they are in the collector.
export interface StateMask {
  isGc: Uint8Array; // by stack
  isWanted: (byte: number, isGc: number) => boolean;
}

// Of samples in one state or of one route.
function ownChosen(
  samples: SampleColumns,
  { only, route: wanted }: Choice,
  mask: Uint8Array | null,
  own: Float64Array,
  from: number,
  to: number,
): Float64Array {
  const { stack, thread, state, route } = samples;
  for (let row = from; row < to; row++) {
    if (mask && !mask[thread[row]]) continue;
    if (typeof wanted === "number" && (route?.[row] ?? 0) !== wanted) continue;
    const isGc = stack[row] < 0 ? 0 : (only?.isGc[stack[row]] ?? 0);
    if (!only || only.isWanted(state?.[row] ?? 0, isGc))
      own[stack[row] < 0 ? own.length - 1 : stack[row]] += weightOf(samples, row);
  }
  return own;
}

// Weights of stacks brought to the nodes of a shape, callers included.
export interface NodeWeights {
  self: Float64Array;
  total: Float64Array;
}

export function nodeWeights(shape: Shape, own: Float64Array): NodeWeights {
  const self = new Float64Array(shape.size);
  const none = own.length - 1;
  for (let row = 0 as StackIndex; row < none; row++) {
    const node = shape.nodeOf[row];
    if (node >= 0 && own[row] !== 0) self[node] += own[row];
  }
  if (shape.noStack >= 0) self[shape.noStack] += own[none];
  const total = self.slice();
  for (let node = (shape.size - 1) as PathIndex; node > 0; node--) total[shape.parent[node]] += total[node];
  return { self, total };
}

export interface Marks {
  tier: Uint8Array;
  kind: Uint8Array;
}

// The tier of a node is that of the heaviest stack that became it in the whole recording; it
// is inlined or async when every one of them is.
export function marksOf(profile: Profile, shape: Shape, own: Float64Array): Marks {
  const { stacks, frames } = profile;
  const totals = own.slice(0, stacks.parent.length);
  for (let row = (totals.length - 1) as StackIndex; row >= 0; row--) {
    if (stacks.parent[row] >= 0) totals[stacks.parent[row]] += totals[row];
  }
  const tier = new Uint8Array(shape.size);
  const kind = new Uint8Array(shape.size);
  const isMet = new Uint8Array(shape.size);
  const heaviest = new Float64Array(shape.size);
  for (let row = 0 as StackIndex; row < totals.length; row++) {
    const node = shape.nodeOf[row];
    const frame = stacks.frame[row];
    // A hidden frame shares its node with its caller, whose marks count.
    if (node < 0 || totals[row] === 0 || shape.fn[node] !== frames.fn[frame]) continue;
    if (!isMet[node]) kind[node] = frames.kind[frame];
    else if (kind[node] !== frames.kind[frame]) kind[node] = 0;
    isMet[node] = 1;
    if (totals[row] > heaviest[node]) {
      heaviest[node] = totals[row];
      tier[node] = frames.tier[frame];
    }
  }
  return { tier, kind };
}

export function treeOf(
  shape: Shape,
  marks: Marks,
  own: Float64Array,
  base: Float64Array | null,
  event: EventType,
  order: Order,
  byName: Int32Array,
  state: Uint8Array | null = null,
): Tree {
  const weights = nodeWeights(shape, own);
  const baseWeights = base ? nodeWeights(shape, base) : null;
  return flattened(
    {
      size: shape.size,
      event,
      fn: plain(shape.fn),
      parent: plain(shape.parent),
      ...weights,
      ...marks,
      baseSelf: baseWeights?.self ?? null,
      baseTotal: baseWeights?.total ?? null,
      state,
    },
    order,
    byName,
  );
}

// Nodes in any order in which parents come first, numbered by their maker: they get their place in
// the tree below.
export interface Nodes {
  size: number;
  event: EventType;
  fn: Int32Array;
  parent: Int32Array;
  self: Float64Array;
  total: Float64Array;
  tier: Uint8Array | null;
  kind: Uint8Array | null;
  baseSelf: Float64Array | null;
  baseTotal: Float64Array | null;
  state?: Uint8Array | null;
}

const isThere = (nodes: Nodes, node: number): boolean =>
  nodes.total[node] > 0 || (nodes.baseTotal !== null && nodes.baseTotal[node] > 0);

// The children of every node side by side, in order; nodes without weight are left out.
function sortedChildren(
  nodes: Nodes,
  order: Order,
  byName: Int32Array,
): { first: Int32Array; children: Int32Array } {
  const { size, parent, total, fn } = nodes;
  const first = new Int32Array(size + 1);
  for (let node = 1; node < size; node++) if (isThere(nodes, node)) first[parent[node] + 1]++;
  for (let node = 0; node < size; node++) first[node + 1] += first[node];
  const children = new Int32Array(first[size]);
  const filled = first.slice();
  for (let node = 1; node < size; node++) if (isThere(nodes, node)) children[filled[parent[node]]++] = node;
  const compare =
    order === "heavy"
      ? (left: number, right: number) => total[right] - total[left] || left - right
      : (left: number, right: number) => nameRank(byName, fn[left]) - nameRank(byName, fn[right]);
  for (let node = 0; node < size; node++) sortPart(children, first[node], first[node + 1], compare);
  return { first, children };
}

const nameRank = (byName: Int32Array, fn: number): number => (fn < 0 ? fn : (byName[fn] ?? fn));

function sortPart(
  values: Int32Array,
  from: number,
  to: number,
  compare: (left: number, right: number) => number,
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
  const { order: taken, parent } = preorder(nodes, first, children);
  const tree: Tree = {
    size: taken.length,
    event: nodes.event,
    rows: 1,
    parent: column(parent),
    fn: column(picked(nodes.fn, taken)),
    self: picked(nodes.self, taken),
    total: picked(nodes.total, taken),
    tier: nodes.tier ? picked(nodes.tier, taken) : new Uint8Array(taken.length),
    kind: nodes.kind ? picked(nodes.kind, taken) : new Uint8Array(taken.length),
    baseSelf: nodes.baseSelf && picked(nodes.baseSelf, taken),
    baseTotal: nodes.baseTotal && picked(nodes.baseTotal, taken),
    state: nodes.state && picked(nodes.state, taken),
    depth: new Uint16Array(taken.length),
    end: column(new Int32Array(taken.length)),
    start: new Float64Array(taken.length),
  };
  place(tree);
  return tree;
}

// The nodes in the order of the tree, and for each place that of its parent.
function preorder(
  nodes: Nodes,
  first: Int32Array,
  children: Int32Array,
): { order: Int32Array; parent: Int32Array } {
  const size = children.length + 1;
  const order = new Int32Array(size);
  const parent = new Int32Array(size);
  const waiting = new Int32Array(size);
  const placeOf = new Int32Array(nodes.size);
  let left = 1;
  for (let at = 0; left > 0; at++) {
    const node = waiting[--left];
    order[at] = node;
    placeOf[node] = at;
    parent[at] = at === 0 ? -1 : placeOf[nodes.parent[node]];
    for (let child = first[node + 1] - 1; child >= first[node]; child--) waiting[left++] = children[child];
  }
  return { order, parent };
}

function picked<T extends Int32Array | Uint8Array | Float64Array>(values: T, order: Int32Array): T {
  const made = new (values.constructor as new (length: number) => T)(order.length);
  for (let at = 0; at < made.length; at++) made[at] = values[order[at]];
  return made;
}

// Where boxes are: their row, where they begin, and where what is above them ends.
function place(tree: Tree): void {
  const { size, parent, depth, start, total, end } = tree;
  const next = new Float64Array(size); // where the next child of a place begins
  for (let at = 1 as NodeIndex; at < size; at++) {
    const below = parent[at];
    depth[at] = Math.min(depth[below] + 1, 0xffff);
    if (depth[at] >= tree.rows) tree.rows = depth[at] + 1;
    start[at] = next[at] = next[below];
    next[below] += total[at];
  }
  for (let at = (size - 1) as NodeIndex; at >= 0; at--) {
    if (end[at] <= at) end[at] = (at + 1) as NodeIndex;
    const below = parent[at];
    if (below >= 0 && end[below] < end[at]) end[below] = end[at];
  }
}

// The functions from the root to a node, without the root.
export function pathTo(tree: Tree, node: NodeIndex): FunctionIndex[] {
  const path: FunctionIndex[] = [];
  for (let at = node; at > 0; at = tree.parent[at]) path.push(tree.fn[at]);
  return path.reverse();
}

// "other" is code of which no frame is shown: its time went to the root.
export const SHARE_KEYS = [...SHARE_PARTS.map((part) => part.key), "other"] as const;
export type Shares = Record<(typeof SHARE_KEYS)[number], number>;

const GC_SHARE = SHARE_KEYS.indexOf("gc");
const UNKNOWN_SHARE = SHARE_KEYS.indexOf("unknown");
const OTHER_SHARE = SHARE_KEYS.indexOf("other");

// What the samples were doing. A sample is garbage collection when any frame is; else its leaf
// decides.
export function sharesOf(names: Names, tree: Tree): Shares {
  const sums = new Float64Array(SHARE_KEYS.length);
  const inGc = new Uint8Array(tree.size);
  const shareOf = Uint8Array.from({ length: functionCount(names) + names.packages.length }, (_, fn) =>
    SHARE_KEYS.indexOf(SHARE_OF_CATEGORY[categoryOf(names, fn as FunctionIndex)] ?? "unknown"),
  );
  const { fn, parent, self } = tree;
  for (let node = ROOT; node < tree.size; node++) {
    const share = node === 0 ? OTHER_SHARE : fn[node] < 0 ? UNKNOWN_SHARE : shareOf[fn[node]];
    inGc[node] = share === GC_SHARE || (node > 0 && inGc[parent[node]]) ? 1 : 0;
    sums[inGc[node] ? GC_SHARE : share] += self[node];
  }
  return Object.fromEntries(SHARE_KEYS.map((key, at) => [key, sums[at]])) as Shares;
}
