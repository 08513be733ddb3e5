// What a search for a subsystem finds and weighs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Division, subsystemIn } from "../src/model/subsystems";
import { Subsystem } from "../src/model/tables";
import type { Tree } from "../src/model/tree";

const letter = (subsystem: Subsystem) => String.fromCharCode(65 + subsystem);

// Functions: main (app), compile, scavenge, memcpy (libc), lookup (V8).
const DIVISION = new Division(
  [Subsystem.App, Subsystem.Compilation, Subsystem.Gc, Subsystem.Libc, Subsystem.V8].map(letter).join(""),
);

// The root has two samples without a stack; main calls all of the others, compile calls memcpy and
// scavenge, which calls memcpy too.
const TREE = {
  size: 8,
  fn: Int32Array.of(-1, 0, 1, 3, 2, 3, 4, 3),
  end: Int32Array.of(8, 8, 6, 4, 6, 6, 7, 8),
  self: Float64Array.of(2, 10, 1, 4, 3, 5, 7, 6),
  total: Float64Array.of(38, 36, 13, 4, 8, 5, 7, 6),
} as unknown as Tree;

test("a subsystem is asked for by its key", () => {
  assert.equal(subsystemIn("in:gc"), Subsystem.Gc);
  assert.equal(subsystemIn(" in:app "), Subsystem.App);
  for (const text of ["gc", "in:", "in:nothing", "x in:gc"]) assert.equal(subsystemIn(text), null, text);
});

test("the collector and compilers own what they call, and every sample counts once", () => {
  const weight = (of: Subsystem) => DIVISION.weight(TREE, of);
  assert.equal(weight(Subsystem.App), 10);
  assert.equal(weight(Subsystem.Compilation), 1 + 4);
  assert.equal(weight(Subsystem.Gc), 3 + 5);
  assert.equal(weight(Subsystem.Libc), 6);
  assert.equal(weight(Subsystem.V8), 7);
  assert.equal(weight(Subsystem.Unknown), 2);
  const all = Array.from({ length: 16 }, (_, of) => weight(of)).reduce((sum, each) => sum + each);
  assert.equal(all, 38);
});

test("functions that only the base has are in no subsystem", () => {
  assert.deepEqual([...DIVISION.hits(Subsystem.Libc, 7)], [0, 0, 0, 1, 0, 0, 0]);
  assert.equal(DIVISION.hits(Subsystem.Unknown, 7).includes(1), false);
});
