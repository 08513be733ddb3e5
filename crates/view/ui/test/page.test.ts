// State, actions, labels, words, toolbar and summary, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { column, type FunctionIndex, type NodeIndex, type ThreadIndex } from "../src/model/indexes";
import type { Names } from "../src/model/profile";
import { Category } from "../src/model/tables";
import type { Preview } from "../src/page/app";
import type { Client } from "../src/page/client";
import type { Opened } from "../src/worker";
import { elementOf, type FakeElement, installDocument } from "./dom";
import { profileOf, randomProfile } from "./naive";

installDocument();
const { ACTIONS, action, isOnlyJavaScript, isOnlyMine } = await import("../src/page/actions");
const { App } = await import("../src/page/app");
const { Labels } = await import("../src/page/labels");
const { heatRows } = await import("../src/page/overview");
const { decodeState, encodeState, START } = await import("../src/page/state");
const { Summary } = await import("../src/page/summary");
const { Toolbar } = await import("../src/page/toolbar");
const { counted, duration, moment, points, shortName } = await import("../src/page/words");

const PREVIEW: Preview = {
  title: "shop.js",
  who: "node v22",
  how: "5.0 s",
  confidence: [],
  remarks: ["one"],
  findings: ["21 % of the main thread is in `sort`, on `worker 1` of `nothing`"],
  leads: [["f1", "t2", "", "t0"]],
  subsystems: [
    { label: "app", share: "75.0 %", search: "in:app", category: 0, members: [] },
    {
      label: "addons",
      share: "25.0 %",
      search: "in:addons",
      category: 7,
      members: [["sharp.node", "20.0 %", "sharp.node"]],
    },
  ],
  subsystemOf: "",
  facts: [],
  event: "",
  unit: "samples",
  durationNs: 1e9,
  samples: 100,
};

function start(profile = randomProfile(7), preview = PREVIEW) {
  const client = { ask: () => new Promise(() => {}) } as unknown as Client;
  const tree = { size: 1, total: Float64Array.of(1), baseTotal: null };
  const app = new App(client, preview, profile, tree as never);
  app.takeOver({
    names: profile,
    sources: [],
    samples: [100],
    hasBase: [false],
    end: 1e9,
  } as unknown as Opened);
  return app;
}

test("an address of another recording loses what does not exist here", () => {
  const app = start();
  location.hash = "#fn=9999&t=0.77&th=50&tf=f9999~x1&file=12345&cmp=base";
  app.recall();
  const { fn, file, thread, threads, transforms, compare } = app.state;
  assert.deepEqual([fn, file, thread, compare], [-1, -1, -1, null]);
  assert.deepEqual(threads, [0]);
  assert.deepEqual(transforms, [{ kind: "drop", fn: 1 }]);
  location.hash = "";
});

test("every part of the state comes back from the address by itself", () => {
  const changed = {
    ...START,
    isExact: true,
    isRising: true,
    order: "name" as const,
    window: { from: 1, to: 2 },
  };
  for (const key of Object.keys(changed) as (keyof typeof changed)[]) {
    const state = { ...START, [key]: changed[key] };
    assert.deepEqual(decodeState(encodeState(state)), state, key);
  }
});

test("no key means two things, and every action does something", () => {
  const keys = ACTIONS.flatMap((each) => each.keys);
  assert.equal(new Set(keys).size, keys.length);
  for (const each of ACTIONS) assert.ok(each.run !== undefined || each.onTarget !== undefined, each.label);
});

test("My code hides what is not, and again shows it", () => {
  const app = start();
  action("onlyMine").run!(app);
  assert.ok(isOnlyMine(app.state));
  for (const shown of [Category.App, Category.Wasm, Category.Idle])
    assert.ok(!app.state.hidden.includes(shown));
  assert.ok(app.state.hidden.includes(Category.Dependency) && app.state.hidden.includes(Category.Native));
  action("onlyMine").run!(app);
  assert.deepEqual(app.state.hidden, []);
});

test("JavaScript hides what is none, whose ever it is, and gives way to My code", () => {
  const app = start();
  action("onlyJavaScript").run!(app);
  assert.ok(isOnlyJavaScript(app.state) && !isOnlyMine(app.state));
  for (const shown of [Category.App, Category.Dependency, Category.NodeCore, Category.Wasm])
    assert.ok(!app.state.hidden.includes(shown));
  for (const hidden of [Category.Builtin, Category.Native, Category.Gc, Category.Kernel, Category.RegExp])
    assert.ok(app.state.hidden.includes(hidden));
  action("onlyMine").run!(app);
  assert.ok(isOnlyMine(app.state) && !isOnlyJavaScript(app.state));
  action("onlyJavaScript").run!(app);
  action("onlyJavaScript").run!(app);
  assert.deepEqual(app.state.hidden, []);
});

test("undo takes back the last step, then the comparison, then the range", () => {
  const app = start();
  app.change({ range: { from: 1, to: 2 }, compare: { from: 3, to: 4 } });
  app.addTransform({ kind: "merge", fn: 1 as FunctionIndex });
  const { run } = action("undo");
  run!(app);
  assert.deepEqual([app.state.transforms.length, app.state.compare !== null], [0, true]);
  run!(app);
  assert.deepEqual([app.state.compare, app.state.range !== null], [null, true]);
  run!(app);
  assert.equal(app.state.range, null);
});

test("threads are walked one by one, with all of them between the last and the first", () => {
  const app = start();
  const seen = [0, 1, 2, 3].map(() => {
    action("nextThread").run!(app);
    return app.state.threads as ThreadIndex[] | null;
  });
  assert.deepEqual(seen, [[0], [1], [2], null]);
});

// What is written into a box of this width; letters are six pixels wide.
function labelIn(name: string, room: number, file = "", prefix = ""): string {
  const written: string[] = [];
  const context = {
    measureText: (text: string) => ({ width: text.length * 6 }),
    fillText: (text: string) => written.push(text),
  };
  const profile = profileOf([Category.App]);
  const texts = { size: 2, get: (at: number) => (at === 1 ? file : name) };
  const place = { file: column(Int32Array.of(file ? 1 : -1)), line: Uint32Array.of(20771) };
  const names = { ...profile, texts, functions: { ...profile.functions, ...place } } as Names;
  new Labels(context as never, names).draw(0 as FunctionIndex, 0, 0, room, prefix, false);
  return written.join("|");
}

test("labels lose their namespaces first, then their middle, then their end, then all", () => {
  assert.equal(labelIn("node::fs::Read", 100), "node::fs::Read");
  assert.equal(labelIn("node::fs::Read", 40), "…Read");
  assert.equal(labelIn("parseMaybeConditional", 60), "parse…onal");
  assert.equal(labelIn("node::InternalCallbackScope", 72), "Intern…Scope");
  assert.equal(labelIn("parse😀ybeConditional😀", 48), "par…al😀");
  assert.equal(labelIn("parseMaybeConditional", 72, "", "new: "), "new: par…nal");
  assert.equal(labelIn("parseMaybeConditional", 54, "", "new: "), "new: par…");
  assert.equal(labelIn("parseJson", 40), "parse…");
  assert.equal(labelIn("parseJson", 12), "");
  assert.equal(labelIn("[swc.node+0x44d2110]", 150), "[swc.node+0x44d2110]");
  assert.equal(labelIn("[swc.node+0x44d2110]", 70), "+0x44d2110");
  assert.equal(labelIn("[swc.node+0x44d2110]", 40), "…d2110");
  assert.equal(labelIn("[swc.node+0x44d2110]", 12), "");
});

test("functions without names keep their line for as long as it fits", () => {
  const labelOf = (room: number) => labelIn("(anonymous)", room, "/a/bundle.min.js");
  assert.equal(labelOf(120), "(anonymous)");
  assert.equal(labelIn("(anonymous)", 60, "/a/b.js"), "b.js:20771");
  assert.equal(labelOf(54), "…js:20771");
  assert.equal(labelOf(40), ":20771");
  assert.equal(labelIn("(anonymous)", 70, "/a/bundle.min.js", "new: "), "new: :20771");
  assert.equal(labelOf(34), "bund…");
});

test("words for lengths, counts and changes", () => {
  assert.equal(duration(3_400_000), "3.4 ms");
  assert.equal(counted(1, "sample"), "1 sample");
  assert.equal(moment(61.5e9, 1e8), "1:01.5");
  assert.equal(points(0.5, 0.25), "+25.0 points");
  assert.equal(points(0.2499, 0.25), "−0.01 points");
  assert.equal(shortName("void ns::run<int>(char const*) const"), "void ns::run");
});

test("buttons do what their titles say", () => {
  const app = start();
  app.panels = [new Toolbar(app)];
  const icicle = elementOf("icicle");
  assert.equal(icicle.title, "Root at the top or at the bottom (i)");
  icicle.fire("click");
  assert.equal(app.state.isIcicle, true);
  assert.equal(icicle.ariaPressed, "true");
});

test("each step has a chip, which removes it", () => {
  const app = start();
  app.panels = [new Toolbar(app)];
  app.addTransform({ kind: "drop", fn: 0 as FunctionIndex });
  app.addTransform({ kind: "merge", fn: 1 as FunctionIndex });
  const chips = elementOf("chips").children as FakeElement[];
  assert.deepEqual(
    chips.map((chip) => chip.textContent),
    ["no samples with f0×", "without f1×"],
  );
  (chips[0].children[1] as FakeElement).fire("click");
  assert.deepEqual(app.state.transforms, [{ kind: "merge", fn: 1 }]);
});

test("the legend leaves a category out", () => {
  const app = start(profileOf([Category.App, Category.Native]));
  app.panels = [new Toolbar(app)];
  app.update();
  const [, native] = elementOf("legend").children as FakeElement[];
  assert.equal(native.textContent, "native");
  native.fire("click");
  assert.deepEqual(app.state.hidden, [Category.Native]);
});

test("the summary names what was recorded, and the shares of the selection", () => {
  const app = start();
  app.panels = [new Summary(app)];
  app.shares = { javascript: 3, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0, other: 1 };
  app.update();
  assert.equal(elementOf("how").textContent, "node v22, 5.0 s");
  assert.equal(elementOf("remark-count").textContent, "1 note");
  assert.equal(
    elementOf("findings").textContent,
    "21 % of the main thread is in sort, on worker 1 of nothing",
  );
  assert.equal(elementOf("subsystems").textContent, "75.0 %app 25.0 %addons sharp.node 20.0 %");
  assert.equal(elementOf("shares").ariaLabel, "JS 75.0 %, other code 25.0 %");
});

test("the choice of an event is there where there is one, and leads to its weights", () => {
  const events = ["cycles", "page-faults"].map((name) => ({ name, unit: "events" as const, rateHz: 0 }));
  const described = events.map(({ name }) => ({
    label: name,
    total: "7 events",
    how: `by ${name}`,
    findings: [],
    leads: [],
    subsystems: [],
  }));
  const app = start({ ...randomProfile(7), events }, { ...PREVIEW, events: described });
  app.panels = [new Toolbar(app), new Summary(app)];
  app.update();
  assert.equal(elementOf("event-choice").hidden, false);
  assert.equal(elementOf("event").textContent, "cycles · 7 eventspage-faults · 7 events");
  elementOf("event").value = "1";
  elementOf("event").fire("change");
  assert.equal(app.state.event, 1);
  assert.equal(app.selection().event, 1);
  assert.equal(elementOf("how").textContent, "node v22, 5.0 s", "the other event is not counted yet");
  location.hash = "#ev=2";
  app.recall();
  assert.equal(app.state.event, 0, "there is no such event");
  location.hash = "";
  new Toolbar(start());
  assert.equal(elementOf("event-choice").hidden, true);
});

test("names in findings lead to what they name, in the whole recording", () => {
  const app = start();
  new Summary(app);
  const [finding] = elementOf("findings").children as FakeElement[];
  const links = finding.all().filter(({ tagName }) => tagName === "button");
  assert.deepEqual(
    links.map((link) => link.textContent),
    ["main thread", "sort", "worker 1"],
  );
  app.change({ view: "top", threads: [0 as ThreadIndex], range: { from: 1, to: 2 }, query: "x" });
  links[1].fire("click");
  const { view, threads, range, query, fn } = app.state;
  assert.deepEqual([view, threads, range, query, fn], ["flame", null, null, "", 1]);
  assert.equal(app.revealing, 1);
  links[2].fire("click");
  assert.deepEqual(app.state.threads, [2]);
  links[0].fire("click");
  assert.deepEqual(app.state.threads, [0]);
});

test("a short recording gets a low heat map, one of a minute the full height", () => {
  assert.deepEqual([1e9, 5e9, 60e9, 3600e9].map(heatRows), [20, 20, 50, 50]);
  assert.ok(heatRows(15e9) > 20 && heatRows(15e9) < 50);
});

test("a path leads to its node as far as it exists", () => {
  const app = start();
  const tree = { fn: [-1, 3, 4], end: [3, 3, 3], parent: [-1, 0, 1] } as never;
  const at = (...path: number[]): NodeIndex => app.nodeAt(tree, path as FunctionIndex[]);
  assert.deepEqual([at(), at(3), at(3, 4), at(3, 9), at(9)], [0, 1, 2, 1, 0]);
});
