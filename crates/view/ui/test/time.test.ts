// Time order, heat map, tracks, lines and the address.

import assert from "node:assert/strict";
import { test } from "node:test";
import { columnLength, heatMap } from "../src/model/heat";
import { column, type FunctionIndex, type ThreadIndex } from "../src/model/indexes";
import { lineWeights } from "../src/model/lines";
import type { Profile } from "../src/model/profile";
import { weightOf } from "../src/model/samples";
import { shapeOf } from "../src/model/shape";
import { Category } from "../src/model/tables";
import { rowsOfThread, timeline } from "../src/model/timeline";
import { tracks } from "../src/model/tracks";
import { ownWeights } from "../src/model/tree";
import { decodeState, encodeState, START } from "../src/page/state";
import { moment, percent, tickStep } from "../src/page/words";
import { pathOf, randomProfile } from "./naive";

const isIdle = (profile: Profile, row: number) =>
  profile.samples.stack[row] >= 0 &&
  profile.functions.category[pathOf(profile, profile.samples.stack[row]).at(-1)!] === Category.Idle;

test("the heat map and the tracks hold every sample that is not idle", () => {
  for (let seed = 1; seed < 100; seed++) {
    const profile = randomProfile(seed);
    let busy = 0;
    for (let row = 0; row < profile.samples.time.length; row++)
      if (!isIdle(profile, row)) busy += weightOf(profile.samples, row);
    const map = heatMap(profile, null, 200, 50);
    assert.equal(
      map.counts.reduce((sum, value) => sum + value, 0),
      busy,
    );
    assert.equal(
      tracks(profile, 100).weights.reduce((sum, value) => sum + value, 0),
      busy,
    );
  }
});

test("columns of the heat map are a second where that fits", () => {
  assert.equal(columnLength(60e9, 250), 1e9);
  assert.equal(columnLength(5e9, 250), 2e8);
  assert.equal(columnLength(86_400e9, 250), 600e9);
  assert.equal(columnLength(20e6, 250), 1e6);
  assert.ok(86_400e9 / columnLength(86_400e9, 250) <= 250);
});

test("time order joins what goes on and puts collections on top", () => {
  const profile = randomProfile(3);
  // f0 calls f1; a bare collection f2 comes between two samples of it.
  profile.functions.category.fill(0);
  profile.functions.category[2 as FunctionIndex] = Category.Gc;
  profile.frames.fn.set([0, 1, 2]);
  profile.stacks = { parent: column(Int32Array.of(-1, 0, -1)), frame: column(Int32Array.of(0, 1, 2)) };
  profile.samples = {
    time: Float64Array.of(0, 10, 20, 30, 1000),
    tick: 1,
    weight: "one",
    lastWeight: 0,
    thread: column(new Uint16Array(5)),
    stack: column(Int32Array.of(1, 1, 2, 1, 0)),
  };
  const rows = rowsOfThread(profile.samples, 0 as ThreadIndex);
  const boxes = timeline(profile, shapeOf(profile, true), rows, 10, 0, 1100, 1000);
  const seen = Array.from(
    boxes.fn,
    (fn, at) => `${boxes.depth[at]} f${fn} ${boxes.from[at]}-${boxes.to[at]}`,
  );
  assert.deepEqual(seen, ["0 f0 0-40", "0 f0 1000-1010", "1 f1 0-40", "2 f2 20-30"]);
});

test("with more samples than pixels, one stands for each column", () => {
  const profile = randomProfile(5);
  const count = 50_000;
  profile.stacks = { parent: column(Int32Array.of(-1)), frame: column(Int32Array.of(0)) };
  profile.samples = {
    time: Float64Array.from({ length: count }, (_, at) => at * 10),
    tick: 1,
    weight: "one",
    lastWeight: 0,
    thread: column(new Uint16Array(count)),
    stack: column(new Int32Array(count)),
  };
  const boxes = timeline(
    profile,
    shapeOf(profile, true),
    rowsOfThread(profile.samples, 0 as ThreadIndex),
    10,
    0,
    count * 10,
    500,
  );
  assert.equal(boxes.fn.length, 1);
  assert.ok(boxes.isSampled && boxes.from[0] === 0 && boxes.to[0] >= count * 10 - 1);
});

test("a line that is on the stack twice counts once", () => {
  for (let seed = 1; seed < 100; seed++) {
    const profile = randomProfile(seed);
    const file = profile.functions.file[0 as FunctionIndex];
    const found = lineWeights(
      profile,
      ownWeights(profile, profile.samples, { threads: null, range: null }),
      file,
    );
    const totals = new Map<number, number>();
    for (let row = 0; row < profile.samples.time.length; row++) {
      const on = new Set<number>();
      for (let stack = profile.samples.stack[row]; stack >= 0; stack = profile.stacks.parent[stack]) {
        const frame = profile.stacks.frame[stack];
        if (profile.functions.file[profile.frames.fn[frame]] === file) on.add(profile.frames.line[frame]);
      }
      for (const line of on) totals.set(line, (totals.get(line) ?? 0) + weightOf(profile.samples, row));
    }
    for (const [at, line] of found.line.entries()) assert.equal(found.total[at], totals.get(line));
  }
});

test("the address brings back the state", () => {
  const state = {
    ...START,
    view: "time" as const,
    query: "a b&c#%",
    isRegExp: true,
    threads: [0, 5] as ThreadIndex[],
    range: { from: 1, to: 9 },
    compare: "base" as const,
    transforms: [
      { kind: "subtree" as const, path: [1, 2, 3] as FunctionIndex[] },
      { kind: "drop" as const, fn: 4 as FunctionIndex },
    ],
    zoom: [3, -2, 9] as FunctionIndex[],
    hidden: [1, 6],
    fn: 7 as FunctionIndex,
    palette: "okabe" as const,
    overview: "none" as const,
  };
  assert.deepEqual(decodeState(encodeState(state)), state);
  assert.equal(encodeState(START), "");
  assert.deepEqual(decodeState("v=%3Cscript%3E&tf=~~q9~f&x=a.b&r=9-1&fn=-3&t=&hide=99"), {
    ...START,
    zoom: [],
  });
});

test("numbers read well", () => {
  assert.equal(percent(1, 100_000), "<0.1 %");
  assert.equal(percent(1, 3), "33.3 %");
  assert.equal(moment(3_723e9, 1e9), "1:02:03");
  assert.equal(moment(1.25e9, 1e7), "1.25 s");
  assert.equal(tickStep(3e9), 5e9);
  assert.equal(tickStep(40e9), 60e9);
});
