// Other trees and tables made of a tree: callers, callees, from the leaf, weights by function.

import { functionCount, type Names } from "./profile";
import { Paths } from "./shape";
import { flattened, type Nodes, type Order, type Tree } from "./tree";

// How small a share of the whole is still followed to its callers: less than a pixel.
const SMALLEST_SHARE = 1 / 20_000;

// Entries that stand at nodes of a tree and climb towards its root together.
interface Climbers {
  at: Int32Array;
  weight: Float64Array;
  base: Float64Array | null;
}

// The tree from the leaf: the functions that ran, above them their callers.
export function fromLeaf(tree: Tree, order: Order, byName: Int32Array): Tree {
  const leaves: number[] = [];
  for (let node = 1; node < tree.size; node++) {
    if (tree.self[node] > 0 || (tree.baseSelf && tree.baseSelf[node] > 0)) leaves.push(node);
  }
  const climbers = climbersAt(leaves, tree.self, tree.baseSelf);
  return climbed(tree, climbers, order, byName);
}

// The callers of one function, which is at the bottom.
export function callersOf(tree: Tree, fn: number, order: Order, byName: Int32Array): Tree {
  const climbers = climbersAt(outermost(tree, fn), tree.total, tree.baseTotal);
  return climbed(tree, climbers, order, byName);
}

function climbersAt(nodes: number[], weight: Float64Array, base: Float64Array | null): Climbers {
  return {
    at: Int32Array.from(nodes),
    weight: Float64Array.from(nodes, (node) => weight[node]),
    base: base && Float64Array.from(nodes, (node) => base[node]),
  };
}

// The nodes of a function that are not inside another call of it.
function outermost(tree: Tree, fn: number): number[] {
  const found: number[] = [];
  for (let node = 1; node < tree.size; ) {
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
  const group = new Int32Array(at.length);
  let moving = Array.from(at.keys());
  const least = Math.max(whole, wholeBase) * SMALLEST_SHARE;
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
    fn: paths.fn,
    parent: paths.parent,
    self: Float64Array.from(ended),
    total: Float64Array.from(total),
    tier: null,
    isInlined: null,
    baseSelf: climbers.base && new Float64Array(paths.size),
    baseTotal: climbers.base && Float64Array.from(baseTotal),
  };
  return flattened(nodes, order, byName);
}

// What one function calls, all its calls together; the function is right above the root.
export function calleesOf(tree: Tree, fn: number, order: Order, byName: Int32Array): Tree {
  const paths = new Paths(1024);
  const made = new Int32Array(tree.size); // the new node of an old one; 0 for those outside
  for (const top of outermost(tree, fn)) {
    for (let node = top; node < tree.end[top]; node++) {
      made[node] = paths.child(node === top ? 0 : made[tree.parent[node]], tree.fn[node]);
    }
  }
  const column = (from: Float64Array) => {
    const sums = new Float64Array(paths.size);
    for (let node = 1; node < made.length; node++) if (made[node] > 0) sums[made[node]] += from[node];
    return sums;
  };
  const rooted = (sums: Float64Array) => {
    for (let node = 1; node < paths.size; node++) if (paths.parent[node] === 0) sums[0] += sums[node];
    return sums;
  };
  const tier = new Uint8Array(paths.size);
  for (let node = 1; node < made.length; node++) tier[made[node]] ||= tree.tier[node];
  tier[0] = 0;
  return flattened(
    {
      size: paths.size,
      fn: paths.fn,
      parent: paths.parent,
      self: column(tree.self),
      total: rooted(column(tree.total)),
      tier,
      isInlined: null,
      baseSelf: tree.baseSelf && column(tree.baseSelf),
      baseTotal: tree.baseTotal && rooted(column(tree.baseTotal)),
    },
    order,
    byName,
  );
}

export interface FunctionWeights {
  whole: number; // of the tree; shares are of it
  baseWhole: number;
  self: Float64Array;
  total: Float64Array;
  baseSelf: Float64Array | null;
  baseTotal: Float64Array | null;
}

// Self and total weight by function, packages after the functions. One that calls itself counts
// once.
export function functionWeights(names: Names, tree: Tree): FunctionWeights {
  const rows = functionCount(names) + names.packages.length;
  const column = () => new Float64Array(rows);
  const weights: FunctionWeights = {
    whole: tree.total[0],
    baseWhole: tree.baseTotal?.[0] ?? 0,
    self: column(),
    total: column(),
    baseSelf: tree.baseSelf && column(),
    baseTotal: tree.baseTotal && column(),
  };
  const active = new Int32Array(rows);
  const open: number[] = [];
  for (let node = 1; node < tree.size; node++) {
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
