// The page's parts with a worker that answers late: what is drawn and what labels it must always
// belong together.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  column,
  type EventIndex,
  type FunctionIndex,
  type NodeIndex,
  type TextIndex,
  type ThreadIndex,
} from "../src/model/indexes";
import type { Profile } from "../src/model/profile";
import { Category } from "../src/model/tables";
import type { Tree } from "../src/model/tree";
import type { Panel, Preview } from "../src/page/app";
import type { Client } from "../src/page/client";
import type { Menu } from "../src/page/menu";
import type { Tooltip } from "../src/page/tooltip";
import type { Opened, Questions } from "../src/worker";
import { elementOf, type FakeElement, installDocument } from "./dom";
import { profileOf, randomProfile } from "./naive";

installDocument();
const { App } = await import("../src/page/app");
const { FlameView } = await import("../src/page/flameview");
const { Overview } = await import("../src/page/overview");
const { Sandwich } = await import("../src/page/sandwich");
const { SourceView } = await import("../src/page/sourceview");
const { Summary } = await import("../src/page/summary");
const { TimeView } = await import("../src/page/timeview");
const { Toolbar } = await import("../src/page/toolbar");
const { TopView } = await import("../src/page/topview");
const { TreeView } = await import("../src/page/treeview");

type Kind = keyof Questions;

// Keeps questions until the test answers them.
class LateWorker {
  readonly waiting: { kind: Kind; ask: never; resolve: (answer: unknown) => void }[] = [];

  ask(kind: Kind, ask: never): Promise<unknown> {
    return new Promise((resolve) => this.waiting.push({ kind, ask, resolve }));
  }

  // Answers the newest question of a kind.
  async answer<K extends Kind>(kind: K, make: (ask: Questions[K]["ask"]) => unknown): Promise<void> {
    const at = this.waiting.findLastIndex((each) => each.kind === kind);
    assert.ok(at >= 0, `nothing asks for ${kind}`);
    const [{ ask, resolve }] = this.waiting.splice(at, 1);
    resolve(make(ask));
    await new Promise((done) => setImmediate(done));
  }
}

// A root, the function, and nothing else.
function treeOf(fn: number, total: number): Tree {
  return {
    size: 2,
    event: { name: "", unit: "samples", rateHz: 0 },
    rows: 2,
    fn: column(Int32Array.of(-1, fn)),
    parent: column(Int32Array.of(-1, 0)),
    depth: Uint16Array.of(0, 1),
    end: column(Int32Array.of(2, 2)),
    start: new Float64Array(2),
    self: Float64Array.of(0, total),
    total: Float64Array.of(total, total),
    tier: new Uint8Array(2),
    kind: new Uint8Array(2),
    baseSelf: null,
    baseTotal: null,
  };
}

const NO_TOOLTIP = { hide: () => {}, show: () => {} } as unknown as Tooltip;
const NO_MENU = {} as unknown as Menu;

function start(profile: Profile = randomProfile(7), events: Preview["events"] = undefined) {
  const worker = new LateWorker();
  const { how, findings, leads } = { how: "", findings: [], leads: [], ...events?.[0] };
  const subsystems: Preview["subsystems"] = [];
  const about = {
    title: "t",
    who: "",
    confidence: [],
    remarks: [],
    facts: [],
    durationNs: 1e9,
    samples: 100,
  };
  const preview = { ...about, how, findings, leads, subsystems, events } as unknown as Preview;
  const app = new App(worker as unknown as Client, preview, profile, treeOf(0, 10));
  const opened = { names: profile, sources: [], samples: [100], hasBase: [false], end: 1e9 };
  app.takeOver(opened as unknown as Opened);
  const show = (panel: Panel) => {
    app.panels = [panel];
    return panel.root as unknown as FakeElement;
  };
  const shares = { javascript: 100, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0, other: 0 };
  const answerTree = (total: number, fn = 0) =>
    worker.answer("tree", () => ({ tree: treeOf(fn, total), shares, whole: total }));
  return { app, worker, show, answerTree, opened: opened as unknown as Opened };
}

test("another reading comes with its tree: no box has a name of another's function", async () => {
  const { app, opened, answerTree } = start();
  const { names, tree } = app;
  const other = { ...opened, names: randomProfile(8) };
  const opening = app.open(other, { compare: null });
  assert.ok(app.names === names && app.tree === tree, "nothing is counted yet");
  await answerTree(7, 1);
  await opening;
  assert.ok(app.names === other.names);
  assert.equal(app.whole, 7);
  assert.equal(app.answers.tree.isWaiting, false);
});

const sandwichOf = ({ fn }: { fn: number }) => ({
  callers: treeOf(fn, fn + 1),
  callees: treeOf(fn, fn + 1),
  whole: 10,
});

test("a sandwich keeps the name of the function whose trees it shows", async () => {
  const { app, worker, show } = start();
  const sandwich = new Sandwich(app, NO_TOOLTIP, NO_MENU);
  const root = show(sandwich);
  app.change({ view: "sandwich", fn: 0 as FunctionIndex });
  await worker.answer("sandwich", sandwichOf);
  assert.match(root.textContent, /f0.*total 10\.0 %/);
  app.change({ fn: 1 as FunctionIndex });
  assert.match(root.textContent, /f0.*total 10\.0 %/, "f1 is not counted yet");
  assert.equal(sandwich.target()?.fn, 0);
  await worker.answer("sandwich", sandwichOf);
  assert.match(root.textContent, /f1.*total 20\.0 %/);
  assert.equal(sandwich.target()?.fn, 1);
});

test("a sandwich's shares are of the selection that was counted with it", async () => {
  const { app, worker, show, answerTree } = start();
  const root = show(new Sandwich(app, NO_TOOLTIP, NO_MENU));
  app.change({ view: "sandwich", fn: 0 as FunctionIndex });
  await worker.answer("sandwich", sandwichOf);
  app.change({ range: { from: 0, to: 5 } });
  await answerTree(1);
  assert.match(root.textContent, /total 10\.0 %/);
});

test("an answer that comes after a newer question is not shown", async () => {
  const { app, worker, show } = start();
  const root = show(new Sandwich(app, NO_TOOLTIP, NO_MENU));
  app.change({ view: "sandwich", fn: 0 as FunctionIndex });
  const late = worker.waiting.findLast((each) => each.kind === "sandwich")!;
  app.change({ fn: 1 as FunctionIndex });
  late.resolve(sandwichOf({ fn: 0 }));
  await new Promise((done) => setImmediate(done));
  assert.doesNotMatch(root.textContent, /f0|f1/);
  await worker.answer("sandwich", sandwichOf);
  assert.match(root.textContent, /f1/);
});

test("a question that was answered last is not asked again", async () => {
  const { app, worker, show } = start();
  const root = show(new Sandwich(app, NO_TOOLTIP, NO_MENU));
  app.change({ view: "sandwich", fn: 0 as FunctionIndex });
  await worker.answer("sandwich", sandwichOf);
  app.change({ fn: 1 as FunctionIndex });
  app.change({ fn: 0 as FunctionIndex });
  assert.equal(worker.waiting.filter((each) => each.kind === "sandwich").length, 1);
  await worker.answer("sandwich", sandwichOf);
  assert.match(root.textContent, /f0/, "the answer for f1 is late");
});

test("top functions show shares of the selection they were counted in", async () => {
  const { app, worker, show, answerTree } = start();
  const root = show(new TopView(app, NO_MENU));
  const weights = (self: number) => ({
    self: Float64Array.of(self),
    total: Float64Array.of(self),
    baseSelf: null,
    baseTotal: null,
    whole: 10,
    event: { name: "", unit: "samples" as const, rateHz: 0 },
  });
  app.change({ view: "top" });
  await answerTree(10);
  await worker.answer("functions", () => weights(5));
  assert.match(root.textContent, /50\.0 %/);
  app.change({ range: { from: 0, to: 5 } });
  await answerTree(100);
  assert.match(root.textContent, /50\.0 %/, "the functions of the new range are not counted yet");
  await worker.answer("functions", () => weights(1));
  assert.match(root.textContent, /10\.0 %/);
});

test("the source's lines stay with their file", async () => {
  const { app, worker, show } = start();
  const root = show(new SourceView(app));
  const files = app.names.functions.name.length; // their texts come after the functions'
  const [first, second] = [files, files + 1] as TextIndex[];
  const lines = (line: number) => ({
    line: Uint32Array.of(line),
    self: Float64Array.of(1),
    total: Float64Array.of(1),
    whole: 2,
  });
  app.change({ view: "source", file: first });
  await worker.answer("files", () => []);
  await worker.answer("lines", () => lines(11));
  assert.match(root.textContent, /\/a\/x\.js:11/);
  app.change({ file: second });
  assert.match(root.textContent, /\/a\/x\.js:11/);
  assert.doesNotMatch(root.textContent, /qs\/i\.js:11/, "line 11 is of the other file");
  await worker.answer("lines", () => lines(7));
  assert.match(root.textContent, /qs\/i\.js:7/);
});

test("time order does not show one thread's boxes under another's name", async () => {
  const { app, worker, show } = start();
  const view = new TimeView(app, NO_TOOLTIP, NO_MENU);
  const root = show(view);
  const canvas = root.all().find((each) => each.tagName === "canvas")!;
  const boxes = (fn: number) => ({
    depth: Uint16Array.of(0),
    fn: Int32Array.of(fn),
    from: Float64Array.of(0),
    to: Float64Array.of(1e9),
    rows: 1,
    isSampled: false,
  });
  const press = () => {
    canvas.fire("pointerdown", { button: 0, clientX: 500, clientY: 20 });
    canvas.fire("pointerup", { button: 0, clientX: 500, clientY: 20 });
    return view.target()?.fn ?? -1;
  };
  app.change({ view: "time", thread: 0 as ThreadIndex });
  await worker.answer("timeline", () => boxes(1));
  assert.equal(press(), 1);
  app.change({ thread: 2 as ThreadIndex });
  assert.equal(press(), -1, "thread 2 has no boxes yet");
  await worker.answer("timeline", () => boxes(0));
  assert.equal(press(), 0);
});

test("time order keeps its boxes while a part of it is counted anew", async () => {
  const { app, worker, show } = start();
  const view = new TimeView(app, NO_TOOLTIP, NO_MENU);
  show(view);
  app.change({ view: "time", thread: 0 as ThreadIndex });
  const empty = {
    depth: new Uint16Array(0),
    fn: new Int32Array(0),
    from: new Float64Array(0),
    to: new Float64Array(0),
  };
  await worker.answer("timeline", () => ({ ...empty, rows: 40, isSampled: false }));
  const spacer = (view.root as unknown as FakeElement)
    .all()
    .find((each) => each.className === "flame-spacer")!;
  const tall = spacer.style.height;
  app.change({ window: { from: 0, to: 10 } });
  assert.equal(spacer.style.height, tall);
});

test("flame graph and call tree know from which end the tree they show is", async () => {
  for (const [View, view] of [
    [FlameView, "flame"],
    [TreeView, "tree"],
  ] as const) {
    const { app, worker, show, answerTree } = start();
    const panel = View === FlameView ? new FlameView(app, NO_TOOLTIP, NO_MENU) : new TreeView(app, NO_MENU);
    show(panel);
    app.change({ view });
    await answerTree(10, 1);
    if (panel instanceof FlameView) panel.flame.selected = 1 as NodeIndex;
    app.change({ isFromLeaf: true });
    assert.deepEqual(panel.target(), { fn: 1, path: [1] }, `${view}: still from the root`);
    await worker.answer("fromLeaf", () => ({ tree: treeOf(0, 10) }));
    if (panel instanceof FlameView) panel.flame.selected = 1 as NodeIndex;
    assert.deepEqual(panel.target(), { fn: 0, path: null }, view);
  }
});

test("an old tree from the leaf is not shown for a newer selection", async () => {
  const { app, worker, show, answerTree } = start();
  const view = new FlameView(app, NO_TOOLTIP, NO_MENU);
  show(view);
  app.change({ isFromLeaf: true });
  await worker.answer("fromLeaf", () => ({ tree: treeOf(0, 10) }));
  app.change({ isFromLeaf: false, range: { from: 0, to: 5 } });
  await answerTree(5, 1);
  app.change({ isFromLeaf: true });
  view.flame.selected = 1 as NodeIndex;
  assert.equal(view.target()?.fn, 1);
});

test("a search says nothing of text that was not searched yet", async () => {
  const { app, worker, show } = start();
  show(new Toolbar(app));
  const hits = new Uint8Array(app.names.functions.name.length + app.names.packages.length).fill(1);
  app.change({ query: "a" });
  await worker.answer("search", () => ({ hits, matched: 1, whole: 2 }));
  assert.equal(elementOf("matched").textContent, "matched 50.0 %");
  assert.equal(app.hits, hits);
  app.change({ query: "ab" });
  assert.equal(elementOf("matched").textContent, "");
  assert.equal(app.hits, null);
  await worker.answer("search", () => ({ hits, matched: 0.5, whole: 2 }));
  app.change({ range: { from: 0, to: 5 } });
  assert.equal(elementOf("matched").textContent, "", "the range is not searched yet");
  assert.equal(app.hits, hits, "the same functions match, whatever the range");
});

test("the page is busy until every answer is there", async () => {
  const { app, worker, show, answerTree } = start();
  show(new Overview(app, NO_TOOLTIP));
  app.change({ overview: "heat" });
  const isBusy = () => document.body.dataset.busy;
  assert.equal(isBusy(), "true");
  await answerTree(10);
  assert.equal(isBusy(), "true");
  await worker.answer("heat", () => ({
    columnNs: 1e8,
    columns: 10,
    rows: 5,
    from: 0,
    counts: new Float64Array(50),
    largest: 1,
  }));
  assert.equal(isBusy(), "false");
});

// A root and one function on top of the other, of categories of which the last is the reader's.
function chainOf(categories: number[], total: number): { profile: Profile; tree: Tree } {
  const size = categories.length + 1;
  const rows = Int32Array.from({ length: size }, (_, at) => at - 1);
  const tree: Tree = {
    ...treeOf(0, total),
    size,
    rows: size,
    fn: column(rows),
    parent: column(rows),
    depth: Uint16Array.from(rows, (_, at) => at),
    end: column(new Int32Array(size).fill(size)),
    start: new Float64Array(size),
    self: Float64Array.from(rows, (_, at) => (at === size - 1 ? total : 0)),
    total: new Float64Array(size).fill(total),
    tier: new Uint8Array(size),
    kind: new Uint8Array(size),
  };
  return { profile: profileOf(categories), tree };
}

test("a bar is walked over as one box, and opened by what would zoom into a box", async () => {
  const { profile, tree } = chainOf([...Array(4).fill(Category.Native), Category.App, Category.App], 10);
  const { app, worker, show } = start(profile);
  const view = new FlameView(app, NO_TOOLTIP, NO_MENU);
  show(view);
  const shares = { javascript: 10, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0, other: 0 };
  app.change({ view: "flame" });
  await worker.answer("tree", () => ({ tree, shares, whole: 10 }));
  const said = () => elementOf("status").textContent;
  const press = (key: string) => view.key({ key } as KeyboardEvent);
  press("ArrowUp");
  press("ArrowUp");
  assert.equal(said(), "4 frames of node and V8: total 100 %, self 0 %");
  assert.equal(view.target(), null, "it is no function");
  press("ArrowUp");
  assert.equal(said(), "f4: total 100 %, self 0 %");
  press("ArrowDown");
  press("Enter");
  assert.equal(app.state.isStartOpen, true);
  assert.deepEqual(app.state.zoom, []);
  press("ArrowUp");
  press("ArrowUp");
  assert.equal(said(), "f0: total 100 %, self 0 %");
});

test("a finding's function is selected once the whole recording is counted", async () => {
  const { profile, tree } = chainOf([Category.App, Category.App], 10);
  const { app, worker, show, answerTree } = start(profile);
  const view = new FlameView(app, NO_TOOLTIP, NO_MENU);
  show(view);
  app.change({ range: { from: 0, to: 5 } });
  await answerTree(5);
  app.follow("f1");
  assert.equal(view.flame.selected, -1, "the whole recording is not counted yet");
  const shares = { javascript: 10, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0, other: 0 };
  await worker.answer("tree", () => ({ tree, shares, whole: 10 }));
  assert.equal(view.flame.selected, 2);
  assert.equal(app.revealing, -1);
});

test("the event that is said is the one whose weights are shown", async () => {
  const events = ["cpu-clock", "page-faults"].map((name) => ({ name, unit: "events" as const, rateHz: 0 }));
  const described = events.map(({ name }) => ({
    label: name,
    total: "",
    how: name,
    findings: [name],
    leads: [],
    subsystems: [],
  }));
  const { app, show, answerTree } = start({ ...randomProfile(7), events }, described);
  show(new Summary(app));
  app.update();
  await answerTree(10);
  assert.equal(elementOf("how").textContent, "cpu-clock");
  app.chooseEvent(1 as EventIndex);
  assert.equal(elementOf("how").textContent, "cpu-clock", "page faults are not counted yet");
  await answerTree(3);
  assert.equal(elementOf("how").textContent, "page-faults");
  assert.equal(elementOf("findings").textContent, "page-faults");
});
