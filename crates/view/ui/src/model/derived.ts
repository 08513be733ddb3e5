// Other trees and tables made of a tree: callers, callees, from the leaf, weights by function.

import { type Column, column, type FunctionIndex, type NodeIndex, type PathIndex, plain } from "./indexes";
import { type EventType, functionCount, type Names } from "./profile";
import { Paths, ROOT_PATH } from "./shape";
import { flattened, type Nodes, type NodeWeight, type Order, ROOT, type Tree } from "./tree";

// How small a share of the whole is still followed to its callers: less than a pixel.
const MIN_SHARE = 1 / 20_000;

// Entries that stand at nodes of a tree and climb towards its root together.
interface Climbers {
  at: Column<number, NodeIndex>;
  weight: Float64Array;
  base: Float64Array | null;
}

// The tree from the leaf: the functions that ran, above them their callers.
export function fromLeaf(tree: Tree, order: Order, byName: Int32Array): Tree {
  const leaves: NodeIndex[] = [];
  for (let node = 1 as NodeIndex; node < tree.size; node++) {
    if (tree.self[node] > 0 || (tree.baseSelf && tree.baseSelf[node] > 0)) leaves.push(node);
  }
  const climbers = climbersAt(leaves, tree.self, tree.baseSelf);
  return climbed(tree, climbers, order, byName);
}

// The callers of one function, which is at the bottom.
export function callersOf(tree: Tree, fn: FunctionIndex, order: Order, byName: Int32Array): Tree {
  const climbers = climbersAt(outermost(tree, fn), tree.total, tree.baseTotal);
  return climbed(tree, climbers, order, byName);
}

function climbersAt(nodes: NodeIndex[], weight: NodeWeight, base: NodeWeight | null): Climbers {
  return {
    at: column(Int32Array.from(nodes)),
    weight: Float64Array.from(nodes, (node) => weight[node]),
    base: base && Float64Array.from(nodes, (node) => base[node]),
  };
}

// The nodes of a function that are not inside another call of it.
function outermost(tree: Tree, fn: FunctionIndex): NodeIndex[] {
  const found: NodeIndex[] = [];
  for (let node = 1 as NodeIndex; node < tree.size; ) {
    if (tree.fn[node] === fn) {
      found.push(node);
      node = tree.end[node];
    } else node++;
  }
  return found;
}

// Groups the climbers by function, level by level. Those whose group is too small to see stop.
function climbed(tree: Tree, climbers: Climbers, order: Order, byName: Int32Array): Tree {
  const whole = climbers.weight.reduce((sum, weight) => sum + weight, 0);
  const wholeBase = climbers.base?.reduce((sum, weight) => sum + weight, 0) ?? 0;
  const paths = new Paths(1024);
  const total: number[] = [whole];
  const ended: number[] = [0]; // weight that climbed no further
  const baseTotal: number[] = [wholeBase];
  const at = climbers.at.slice();
  const group = column<Column<number, PathIndex>>(new Int32Array(at.length));
  let moving = Array.from(at.keys());
  const least = Math.max(whole, wholeBase) * MIN_SHARE;
  while (moving.length > 0) {
    for (const climber of moving) {
      const node = paths.child(group[climber], tree.fn[at[climber]]);
      if (node === total.length) {
        total.push(0);
        ended.push(0);
        baseTotal.push(0);
      }
      group[climber] = node;
      total[node] += climbers.weight[climber];
      if (climbers.base) baseTotal[node] += climbers.base[climber];
    }
    moving = moving.filter((climber) => {
      const node = group[climber];
      at[climber] = tree.parent[at[climber]];
      if (at[climber] > 0 && Math.max(total[node], baseTotal[node]) >= least) return true;
      ended[node] += climbers.weight[climber];
      return false;
    });
  }
  const nodes: Nodes = {
    size: paths.size,
    event: tree.event,
    fn: plain(paths.fn),
    parent: plain(paths.parent),
    self: Float64Array.from(ended),
    total: Float64Array.from(total),
    tier: null,
    kind: null,
    baseSelf: climbers.base && new Float64Array(paths.size),
    baseTotal: climbers.base && Float64Array.from(baseTotal),
  };
  return flattened(nodes, order, byName);
}

// What one function calls, all its calls together; the function is right above the root.
export function calleesOf(tree: Tree, fn: FunctionIndex, order: Order, byName: Int32Array): Tree {
  const paths = new Paths(1024);
  // The new node of an old one; 0 for those outside.
  const made = column<Column<NodeIndex, PathIndex>>(new Int32Array(tree.size));
  for (const top of outermost(tree, fn)) {
    for (let node = top; node < tree.end[top]; node++) {
      made[node] = paths.child(node === top ? ROOT_PATH : made[tree.parent[node]], tree.fn[node]);
    }
  }
  const sumsOf = (from: NodeWeight) => {
    const sums = new Float64Array(paths.size);
    for (let node = 1 as NodeIndex; node < made.length; node++)
      if (made[node] > 0) sums[made[node]] += from[node];
    return sums;
  };
  const rooted = (sums: Float64Array) => {
    for (let node = 1 as PathIndex; node < paths.size; node++)
      if (paths.parent[node] === 0) sums[0] += sums[node];
    return sums;
  };
  const tier = new Uint8Array(paths.size);
  for (let node = 1 as NodeIndex; node < made.length; node++) tier[made[node]] ||= tree.tier[node];
  tier[0] = 0;
  return flattened(
    {
      size: paths.size,
      event: tree.event,
      fn: plain(paths.fn),
      parent: plain(paths.parent),
      self: sumsOf(tree.self),
      total: rooted(sumsOf(tree.total)),
      tier,
      kind: null,
      baseSelf: tree.baseSelf && sumsOf(tree.baseSelf),
      baseTotal: tree.baseTotal && rooted(sumsOf(tree.baseTotal)),
    },
    order,
    byName,
  );
}

export type FunctionWeight = Column<FunctionIndex, number, Float64Array>;

export interface FunctionWeights {
  whole: number; // of the tree; shares are of it
  event: EventType;
  self: FunctionWeight;
  total: FunctionWeight;
  baseSelf: FunctionWeight | null;
  baseTotal: FunctionWeight | null;
}

// Self and total weight by function, packages after the functions. One that calls itself counts
// once.
export function functionWeights(names: Names, tree: Tree): FunctionWeights {
  const rows = functionCount(names) + names.packages.length;
  const weightsOf = () => column<FunctionWeight>(new Float64Array(rows));
  const weights: FunctionWeights = {
    whole: tree.total[ROOT],
    event: tree.event,
    self: weightsOf(),
    total: weightsOf(),
    baseSelf: tree.baseSelf && weightsOf(),
    baseTotal: tree.baseTotal && weightsOf(),
  };
  const active = new Int32Array(rows);
  const open: NodeIndex[] = [];
  for (let node = 1 as NodeIndex; node < tree.size; node++) {
    while (open.length && tree.end[open.at(-1)!] <= node) active[tree.fn[open.pop()!]]--;
    const fn = tree.fn[node];
    if (fn < 0) continue;
    const isOutermost = active[fn]++ === 0;
    open.push(node);
    weights.self[fn] += tree.self[node];
    if (weights.baseSelf) weights.baseSelf[fn] += tree.baseSelf![node];
    if (!isOutermost) continue;
    weights.total[fn] += tree.total[node];
    if (weights.baseTotal) weights.baseTotal[fn] += tree.baseTotal![node];
  }
  return weights;
}
