// What lies below the place where a flame graph branches, as one bar.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Folds, foldsOf } from "../src/model/folds";
import { column, type FunctionIndex, type NodeIndex } from "../src/model/indexes";
import { packagesOf } from "../src/model/packages";
import type { FunctionColumns, Names } from "../src/model/profile";
import { Category } from "../src/model/tables";
import type { Order, Tree } from "../src/model/tree";
import { flattened } from "../src/model/tree";
import { profileOf } from "./naive";

type Row = [name: string, category: Category, file?: string];

// The tree of stacks with their weights, and the names in it.
function made(stacks: [Row[], number][], order: Order = "heavy"): { names: Names; tree: Tree } {
  const rows: Row[] = [];
  const fnOf = (row: Row) => {
    const at = rows.findIndex(([name]) => name === row[0]);
    return at >= 0 ? at : rows.push(row) - 1;
  };
  const [fn, parent, self] = [[-1], [-1], [0]];
  for (const [stack, weight] of stacks) {
    let node = 0;
    for (const row of stack) {
      const [caller, callee] = [node, fnOf(row)];
      node = fn.findIndex((each, at) => each === callee && parent[at] === caller);
      if (node >= 0) continue;
      node = fn.push(callee) - 1;
      parent.push(caller);
      self.push(0);
    }
    self[node] += weight;
  }
  const total = [...self];
  for (let node = fn.length - 1; node > 0; node--) total[parent[node]] += total[node];
  const columns: FunctionColumns = {
    name: column(Int32Array.from(rows, (_, at) => at)),
    file: column(Int32Array.from(rows, ([, , file], at) => (file ? rows.length + at : -1))),
    line: new Uint32Array(rows.length),
    column: new Uint32Array(rows.length),
    category: Uint8Array.from(rows, ([, category]) => category),
  };
  const texts = {
    size: 2 * rows.length,
    get: (at: number) => (at < rows.length ? rows[at][0] : rows[at - rows.length][2]!),
  };
  const names = { ...profileOf([]), texts, functions: columns, ...packagesOf(texts, columns) };
  const nodes = {
    size: fn.length,
    event: { name: "", unit: "samples" as const, rateHz: 0 },
    fn: Int32Array.from(fn),
    parent: Int32Array.from(parent),
    self: Float64Array.from(self),
    total: Float64Array.from(total),
    tier: null,
    kind: null,
    baseSelf: null,
    baseTotal: null,
  };
  const byName = Int32Array.from(rows, ([name]) => rows.filter(([other]) => other < name).length);
  return { names, tree: flattened(nodes, order, byName) };
}

const native = (name: string): Row => [name, Category.Native];
const app = (name: string): Row => [name, Category.App];
const START = [native("_start"), native("main"), native("node::Start"), native("uv_run")];

const labels = (folds: Folds | null): string[] => [...(folds?.bars.values() ?? [])].map(({ label }) => label);

// The rows in which functions are drawn.
function rowsOf(names: Names, tree: Tree, folds: Folds): Record<string, number> {
  const found: Record<string, number> = {};
  for (let node = 1 as NodeIndex; node < tree.size; node++)
    found[names.texts.get(names.functions.name[tree.fn[node] as FunctionIndex])] = folds.row[node];
  return found;
}

for (const order of ["heavy", "name"] as const) {
  test(`frames of node's start share a row, by ${order}`, () => {
    const { names, tree } = made(
      [
        [[...START, app("handle"), app("render")], 50],
        [[...START, app("walk")], 40],
        [[...START.slice(0, 2), native("atexit")], 10],
        [[native("clone3"), native("start_thread"), native("worker"), native("hash"), native("sha")], 40],
      ],
      order,
    );
    const folds = foldsOf(names, tree)!;
    // uv_run is where it branches, so it is in sight; a thread that runs no JavaScript stays as it is.
    assert.deepEqual(labels(folds), ["3 frames of node's start"]);
    assert.deepEqual(rowsOf(names, tree, folds), {
      _start: 1,
      main: 1,
      "node::Start": 1,
      uv_run: 2,
      handle: 3,
      render: 4,
      walk: 3,
      atexit: 2,
      clone3: 1,
      start_thread: 2,
      worker: 3,
      hash: 4,
      sha: 5,
    });
    assert.equal(folds.rows, 6);
    for (const [first, { nodes }] of folds.bars)
      for (const node of nodes) assert.equal(folds.barOf.get(node), first);
  });
}

test("loading of modules shares a row wherever it is, up to where modules differ", () => {
  const node = (name: string): Row => [name, Category.NodeCore, "node:internal/modules/cjs/loader"];
  const loading = ["require", "Module._load", "Module.load", "Module._compile"].map(node);
  const { names, tree } = made([
    [[...START, app("index.js"), ...loading, app("a.js"), app("parse")], 50],
    [[...START, app("index.js"), ...loading, app("b.js")], 40],
    [[...START, app("index.js"), ...loading.slice(0, 2), node("Module._resolve"), native("stat")], 10],
    // Two frames are as well shown one by one.
    [[...START, app("late"), ...loading.slice(0, 2), native("read")], 20],
  ]);
  const folds = foldsOf(names, tree)!;
  assert.deepEqual(labels(folds), ["4 frames of node's start and event loop", "4 frames of loading modules"]);
  const rows = rowsOf(names, tree, folds);
  assert.deepEqual([rows["index.js"], rows["a.js"], rows["b.js"], rows.parse], [2, 4, 4, 5]);
  assert.deepEqual([rows["Module._resolve"], rows.stat], [4, 5]);
  assert.equal(rows.read, 5);
});

test("a worker's start is said by its name", () => {
  const start = ["start_thread", "node::worker::Worker::StartThread", "node::worker::Worker::Run"].map(
    native,
  );
  const { names, tree } = made([[[...start, native("uv_run"), app("work")], 1]]);
  assert.deepEqual(labels(foldsOf(names, tree)), ["4 frames of a worker's start and event loop"]);
});

test("bars follow where the start branches, each said by what it is", () => {
  const call = ["node::MakeCallback", "v8::Function::Call", "Invoke"].map(native);
  const run = [native("node::Start"), native("node::NodeMainInstance::Run")];
  const loop = [...run, native("node::SpinEventLoopInternal"), native("uv_run")];
  const { names, tree } = made([
    [[...loop, native("uv__run_timers"), ...call, app("tick")], 30],
    [[...loop, native("uv__io_poll"), ...call, app("read")], 30],
    [[...run, native("node::LoadEnvironment"), native("node::StartExecution"), ...call, app("load")], 40],
  ]);
  assert.deepEqual(labels(foldsOf(names, tree)).sort(), [
    "4 frames of node and V8",
    "4 frames of node and V8",
    "5 frames of node's start",
  ]);
});

test("native code that runs no JavaScript is not taken for a start", () => {
  const compiler = ["PlatformWorkerThread", "RunInternal", "CompileNext", "ExecuteJob", "OptimizeGraph"];
  const { names, tree } = made([
    [compiler.map(native), 80],
    [[...START.slice(0, 3), native("InitializeOncePerProcess"), native("PEM_ASN1_read_bio")], 70],
    [[...START, app("handle")], 30],
  ]);
  assert.equal(foldsOf(names, tree), null);
});

test("the way through the event loop is said by its name, and ends at the reader's code", () => {
  const { names, tree } = made([
    [[...START, native("uv__io_poll"), ["emit", Category.NodeCore], app("handle"), app("render")], 1],
  ]);
  const folds = foldsOf(names, tree)!;
  assert.deepEqual(labels(folds), ["6 frames of node's start and event loop"]);
  assert.equal(rowsOf(names, tree, folds).handle, 2);
});

test("a frame with much weight of its own, or few frames, are not folded", () => {
  const busy = made([
    [[native("_start"), native("main")], 25],
    [[...START, app("handle")], 75],
  ]);
  assert.equal(foldsOf(busy.names, busy.tree), null);
  const short = made([[[native("uv_run"), native("poll"), app("handle")], 1]]);
  assert.equal(foldsOf(short.names, short.tree), null);
});

test("code of the reader and code without names is never folded", () => {
  const own = made([[[app("a"), app("b"), app("c"), app("d")], 1]]);
  assert.equal(foldsOf(own.names, own.tree), null);
  const unknown = made([
    [["a", "b", "c", "d"].map((name): Row => [name, Category.Unknown]), 1],
    [[app("x")], 1],
  ]);
  assert.equal(foldsOf(unknown.names, unknown.tree), null);
  // A program that runs no JavaScript: its native code is the reader's.
  const other = made([[[...START, native("solve"), native("step")], 1]]);
  assert.equal(foldsOf(other.names, other.tree), null);
});

test("a long way through a package is one bar, and what it computes itself is not", () => {
  const express = (name: string): Row => [name, Category.Dependency, `/app/node_modules/express/${name}.js`];
  const lodash = (name: string): Row => [name, Category.Dependency, `/app/node_modules/lodash/${name}.js`];
  const way = ["app", "handle", "next", "process_params", "trim_prefix", "layer"].map(express);
  const { names, tree } = made([
    [[...START, ...way, app("handler"), lodash("clone"), lodash("baseClone")], 90],
    [[...START, express("app"), express("handle"), express("finalhandler")], 5],
  ]);
  const folds = foldsOf(names, tree)!;
  assert.deepEqual(labels(folds), ["4 frames of node's start and event loop", "6 frames of express"]);
  const rows = rowsOf(names, tree, folds);
  assert.equal(rows.layer, rows.app);
  assert.equal(rows.handler, rows.app + 1);
  assert.equal(rows.finalhandler, rows.app + 1, "what else a bar calls stands on it");
  assert.equal(rows.baseClone, rows.clone + 1);
});

test("the last function of a package is not in its bar where it is what takes the time", () => {
  const clone = ["clone", "baseClone", "copyArray", "arrayEach", "assign", "isEqual"].map(
    (name): Row => [name, Category.Dependency, `/app/node_modules/lodash/${name}.js`],
  );
  const { names, tree } = made([[[...START, app("handler"), ...clone], 100]]);
  const folds = foldsOf(names, tree)!;
  assert.deepEqual(labels(folds), ["4 frames of node's start and event loop", "5 frames of lodash"]);
  const rows = rowsOf(names, tree, folds);
  assert.equal(rows.isEqual, rows.clone + 1);
});
