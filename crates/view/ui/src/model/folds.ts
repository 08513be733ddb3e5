// What lies below the reader's code in a flame graph: node's start, its event loop, V8's way into
// JavaScript; and what lies between two modules, of which one loads the other, or between two functions of
// the reader, of which a framework calls one for the other. Where such frames mostly pass on they are drawn
// as one bar, so that what differs is in sight first. The tree itself stays as it is, and what else the
// frames of a bar call stands on it too.

import { type Column, column, type FunctionIndex, NO_NODE, type NodeIndex, type TextIndex } from "./indexes";
import { categoryOf, type Names, nameOf } from "./profile";
import { Category } from "./tables";
import { type NodeWeight, ROOT, type Tree } from "./tree";

export interface Folds {
  row: Column<NodeIndex, number, Uint16Array>; // where a node is drawn, from the root
  rows: number;
  bars: Map<NodeIndex, Bar>; // by their first node
  barOf: Map<NodeIndex, NodeIndex>; // the first node of the bar, by each of its nodes
}

export interface Bar {
  nodes: NodeIndex[]; // from the root
  label: string;
}

// Frames belong to a bar while one callee has this part of the bar's weight.
const MOST = 0.8;
// A bar leads to JavaScript when that has this part of its weight. What threads run that never call
// JavaScript, such as V8's compilers, is of interest by itself.
const HALF = 0.5;
// Fewer are as well shown one by one.
const MIN_FRAMES = 3;
// Packages are what many a reader looks for: only long ways through one are worth a bar.
const MIN_PACKAGE_FRAMES = 5;
// Less of the whole is too narrow to be seen.
const MIN_SHARE = 1 / 2000;

const JAVASCRIPT = new Set([Category.App, Category.Dependency, Category.NodeCore, Category.Wasm]);
const PLUMBING = new Set([
  Category.NodeCore,
  Category.Builtin,
  Category.Native,
  Category.Kernel,
  Category.Internal,
]);

// Null where nothing is folded.
export function foldsOf(names: Names, tree: Tree): Folds | null {
  const bars: Folds["bars"] = new Map();
  const barOf: Folds["barOf"] = new Map();
  const javaScript = javaScriptWeights(names, tree);
  const least = MIN_SHARE * tree.total[ROOT];
  const isRoute = new Set(names.routes);
  const starts = childrenOf(tree, ROOT);
  for (let first = starts.pop(); first !== undefined; first = starts.pop()) {
    if (tree.total[first] < least) continue;
    // Routes stand below what is the same for all of them.
    if (tree.parent[first] === ROOT && isRoute.has(tree.fn[first])) starts.push(...childrenOf(tree, first));
    if (!isPlumbing(names, tree, first)) continue;
    const passing = passingFrom(names, tree, first);
    if (passing.length >= MIN_FRAMES && javaScript[first] >= HALF * tree.total[first]) {
      bars.set(first, {
        nodes: passing,
        label: `${passing.length} frames of ${whatIs(names, tree, passing)}`,
      });
      for (const node of passing) barOf.set(node, first);
    }
    // A bar may follow wherever these frames branch.
    for (const node of passing.length ? passing : [first])
      starts.push(...childrenOf(tree, node).filter((child) => !passing.includes(child)));
  }
  foldLoading(names, tree, bars, barOf);
  foldPackages(names, tree, bars, barOf);
  return bars.size > 0 ? { ...rowsOf(tree, bars, barOf), bars, barOf } : null;
}

// Where node has its loaders of modules, and what they are called through.
const LOADER = /^node:(internal\/(modules\/|process\/esm_loader$|vm$|vm\/)|diagnostics_channel$)/;

// The frames with which one module loads others, up to the last: that is where other modules stand on it.
function foldLoading(names: Names, tree: Tree, bars: Folds["bars"], barOf: Folds["barOf"]): void {
  const isLoaderFile = (file: TextIndex) => file >= 0 && LOADER.test(names.texts.get(file));
  const isLoader = Uint8Array.from(names.functions.file, (file) => Number(isLoaderFile(file as TextIndex)));
  foldAlike(tree, bars, barOf, {
    groupOf: (fn) => (isLoader[fn] ? 0 : NO_GROUP),
    minFrames: MIN_FRAMES,
    isPassedOn: false,
    label: () => "loading modules",
  });
}

// What a package calls of itself on the way to the code of others, such as the middleware of a web framework.
function foldPackages(names: Names, tree: Tree, bars: Folds["bars"], barOf: Folds["barOf"]): void {
  foldAlike(tree, bars, barOf, {
    groupOf: (fn) => (categoryOf(names, fn) === Category.Dependency ? names.packageOf[fn] : NO_GROUP),
    minFrames: MIN_PACKAGE_FRAMES,
    isPassedOn: true,
    label: (fn) => names.packages[names.packageOf[fn]],
  });
}

const NO_GROUP = -1;

interface Alike {
  groupOf: (fn: FunctionIndex) => number; // frames of one group may share a bar
  minFrames: number;
  isPassedOn: boolean; // whether the last frame belongs to the bar only if it passes on as well
  label: (fn: FunctionIndex) => string;
}

// Frames of one group in a row.
function foldAlike(tree: Tree, bars: Folds["bars"], barOf: Folds["barOf"], alike: Alike): void {
  const groupOf = (node: NodeIndex) => (tree.fn[node] >= 0 ? alike.groupOf(tree.fn[node]) : NO_GROUP);
  const least = MIN_SHARE * tree.total[ROOT];
  for (let node = (ROOT + 1) as NodeIndex; node < tree.size; ) {
    const isWide = tree.total[node] >= least;
    const group = isWide && !barOf.has(node) ? groupOf(node) : NO_GROUP;
    const isFirst = groupOf(tree.parent[node]) !== group || barOf.has(tree.parent[node]);
    if (group !== NO_GROUP && isFirst) {
      const passing: NodeIndex[] = [];
      for (let at = node; at >= 0 && groupOf(at) === group; ) {
        const callee = calleeOf(tree, at, MOST * tree.total[node]);
        if (callee < 0 && alike.isPassedOn) break;
        passing.push(at);
        at = callee;
      }
      if (passing.length >= alike.minFrames) {
        bars.set(node, {
          nodes: passing,
          label: `${passing.length} frames of ${alike.label(tree.fn[node])}`,
        });
        for (const each of passing) barOf.set(each, node);
      }
    }
    node = isWide ? ((node + 1) as NodeIndex) : tree.end[node];
  }
}

function childrenOf(tree: Tree, node: NodeIndex): NodeIndex[] {
  const children: NodeIndex[] = [];
  for (let child = (node + 1) as NodeIndex; child < tree.end[node]; child = tree.end[child])
    children.push(child);
  return children;
}

// By node, the weight of JavaScript in it and above it.
function javaScriptWeights(names: Names, tree: Tree): NodeWeight {
  const weights = column<NodeWeight>(new Float64Array(tree.size));
  const isJavaScript = Uint8Array.from(names.functions.category, (category) =>
    JAVASCRIPT.has(category) ? 1 : 0,
  );
  for (let node = (tree.size - 1) as NodeIndex; node > ROOT; node--) {
    if (tree.fn[node] >= 0 && isJavaScript[tree.fn[node]]) weights[node] = tree.total[node];
    weights[tree.parent[node]] += weights[node];
  }
  return weights;
}

// The frames of a bar share its row.
function rowsOf(tree: Tree, bars: Folds["bars"], barOf: Folds["barOf"]): Pick<Folds, "row" | "rows"> {
  const row = column<Folds["row"]>(new Uint16Array(tree.size));
  const isShared = new Uint8Array(tree.size);
  for (const node of barOf.keys()) isShared[node] = bars.has(node) ? 0 : 1;
  let rows = 1;
  for (let node = 1 as NodeIndex; node < tree.size; node++) {
    row[node] = Math.min(row[tree.parent[node]] + (isShared[node] ? 0 : 1), 0xffff);
    if (row[node] >= rows) rows = row[node] + 1;
  }
  return { row, rows };
}

// The frames from a node to the one before what branches or is of interest.
function passingFrom(names: Names, tree: Tree, first: NodeIndex): NodeIndex[] {
  const nodes: NodeIndex[] = [];
  const least = MOST * tree.total[first];
  for (let node = first; isPlumbing(names, tree, node); ) {
    const callee = calleeOf(tree, node, least);
    if (callee < 0) break;
    nodes.push(node);
    node = callee;
  }
  return nodes;
}

function isPlumbing(names: Names, tree: Tree, node: NodeIndex): boolean {
  const fn = tree.fn[node];
  if (fn < 0) return false;
  const category = categoryOf(names, fn);
  // What has no name may be anything; what has one in brackets is a module without names.
  return PLUMBING.has(category) || (category === Category.Unknown && nameOf(names, fn).startsWith("["));
}

function calleeOf(tree: Tree, node: NodeIndex, least: number): NodeIndex {
  for (let child = (node + 1) as NodeIndex; child < tree.end[node]; child = tree.end[child])
    if (tree.total[child] >= least) return child;
  return NO_NODE;
}

const IN_WORKER = /^node::worker::Worker::/;
const IN_START =
  /^(_start|main|__libc_start_\w+|executeUserEntryPoint|node::(Start|LoadEnvironment)\w*\b.*)$/;
const IN_LOOP = /^(uv_run|node::SpinEventLoop\w*\b.*)$/;

function whatIs(names: Names, tree: Tree, nodes: NodeIndex[]): string {
  const has = (pattern: RegExp) => nodes.some((node) => pattern.test(nameOf(names, tree.fn[node])));
  const start = has(IN_WORKER) ? "a worker's start" : has(IN_START) ? "node's start" : "";
  if (!has(IN_LOOP)) return start || "node and V8";
  return start ? `${start} and event loop` : "the event loop";
}

// Where a node is drawn: the first node of its bar, or the node itself.
export const drawnAs = (folds: Folds | null, node: NodeIndex): NodeIndex => folds?.barOf.get(node) ?? node;

export const barAt = (folds: Folds | null, node: NodeIndex): Bar | null => folds?.bars.get(node) ?? null;

// Whether a node is drawn with the one below it.
export const isWithin = (folds: Folds | null, node: NodeIndex): boolean =>
  node > ROOT && drawnAs(folds, node) !== node;
