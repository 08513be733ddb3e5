// What a comparison says of functions, and how wide boxes are in a diff.

import assert from "node:assert/strict";
import { test } from "node:test";
import { column, type FunctionIndex } from "../src/model/indexes";
import type { Names } from "../src/model/profile";
import type { Tree } from "../src/model/tree";
import { type SentComparison, Verdicts } from "../src/model/verdicts";
import { withWidths } from "../src/model/widths";

// main calls same, slow and, before, gone.
function tree(): Tree {
  return {
    size: 5,
    event: { name: "", unit: "samples", rateHz: 0 },
    rows: 3,
    fn: column(Int32Array.of(-1, 0, 1, 2, 3)),
    parent: column(Int32Array.of(-1, 0, 1, 1, 1)),
    depth: Uint16Array.of(0, 1, 2, 2, 2),
    end: column(Int32Array.of(5, 5, 3, 4, 5)),
    start: Float64Array.of(0, 0, 0, 30, 90),
    self: Float64Array.of(0, 10, 30, 60, 0),
    total: Float64Array.of(100, 100, 30, 60, 0),
    tier: new Uint8Array(5),
    kind: new Uint8Array(5),
    baseSelf: Float64Array.of(0, 5, 15, 20, 10),
    baseTotal: Float64Array.of(50, 50, 15, 20, 10),
  };
}

const FILES = ["/srv/new/a.js", "/srv/new/a.js", "/srv/new/b.js", "/srv/old/c.js"];

function names(): Names {
  const texts = ["main", "same", "slow", "gone", ...FILES];
  return {
    texts: { size: texts.length, get: (at: number) => texts[at] },
    functions: {
      name: column(Int32Array.of(0, 1, 2, 3)),
      file: column(Int32Array.of(4, 5, 6, 7)),
      line: Uint32Array.of(1, 2, 3, 4),
      column: new Uint32Array(4),
      category: new Uint8Array(4),
    },
  } as unknown as Names;
}

const SENT: SentComparison = {
  headline: "",
  before: 0.5,
  functions: [
    ["slow", "/elsewhere/b.js", 7, "slower", "+50 %, regression"],
    ["renamed", "/srv/new/c.js", 4, "faster", "-9 %, improvement", "gone", "c.js"],
  ],
};

test("functions are found whatever their folder and line, and by the name they had", () => {
  const verdicts = new Verdicts(names(), SENT);
  const standings = [0, 1, 2, 3].map((fn) => verdicts.of(fn as FunctionIndex).standing);
  assert.deepEqual(standings, ["noise", "noise", "slower", "faster"]);
});

test("two functions that go by one name and file are told apart by their folder, or not at all", () => {
  const twice = (file: string) => ["slow", file, 7, "slower", ""] as SentComparison["functions"][0];
  const sent = { ...SENT, functions: [twice("/a/b.js"), twice("/c/b.js")] };
  assert.ok(new Verdicts(names(), sent).isNoise(2 as FunctionIndex));
});

test("callers carry the change of what they call", () => {
  const changed = new Verdicts(names(), SENT).changed(tree());
  assert.deepEqual([...changed], [1, 1, 0, 1, 1]);
  assert.deepEqual([...new Verdicts(names(), SENT).own(tree())], [0, 0, 0, 1, 1]);
});

test("in a tree of callers the function that is called decides", () => {
  const callers = { ...tree(), fn: column<Tree["fn"]>(Int32Array.of(-1, 2, 0, 1, 0)) };
  assert.deepEqual([...new Verdicts(names(), SENT).changedLeaves(callers)], [1, 1, 1, 1, 1]);
  const others = { ...tree(), fn: column<Tree["fn"]>(Int32Array.of(-1, 1, 2, 2, 2)) };
  assert.deepEqual([...new Verdicts(names(), SENT).changedLeaves(others)], [0, 0, 0, 0, 0]);
});

test("boxes are as wide as on either side, on both, or as they differ", () => {
  const widths = (which: "after" | "before" | "both" | "change", changed: Uint8Array | null = null) => [
    ...withWidths(tree(), which, 2, changed).total,
  ];
  assert.deepEqual(widths("after"), [100, 100, 30, 60, 0]);
  assert.deepEqual(widths("before"), [100, 100, 30, 40, 20]);
  assert.deepEqual(widths("both"), [200, 200, 60, 100, 20]);
  assert.deepEqual(widths("change"), [40, 40, 0, 20, 20]);
  assert.deepEqual(widths("after", Uint8Array.of(0, 0, 0, 1, 1)), [60, 60, 0, 60, 0]);
});

test("boxes stand side by side", () => {
  assert.deepEqual([...withWidths(tree(), "before", 2, null).start], [0, 0, 0, 30, 70]);
});
