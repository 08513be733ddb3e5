// Recordings whose samples say which HTTP request they were taken in: filtered by route, grouped by it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { combined } from "../src/model/combine";
import { ASYNC } from "../src/model/frames";
import type { EventIndex, FunctionIndex, NodeIndex } from "../src/model/indexes";
import { type Names, nameOf, type Recording, selected } from "../src/model/profile";
import { hungByRoute, routeWeights } from "../src/model/routes";
import { shapeOf } from "../src/model/shape";
import { marksOf, ownWeights, ROOT, type Tree, treeOf } from "../src/model/tree";
import { Unpacker } from "../src/model/unpack";
import { decodeState, encodeState, START } from "../src/page/state";
import { profileOf } from "./naive";
import { nspy, type Written } from "./nspy";

const SERVER: Written = {
  functions: ["render", "parse", "poll"],
  events: [{ name: "cpu-clock", unit: 0, rateHz: 99 }],
  contexts: [
    { route: "GET /users/:id", trace: "1" },
    { route: "POST /orders" },
    { route: "GET /users/:id", trace: "2" },
  ],
  samples: [
    { time: 0, weight: 4, fn: 0, event: 0, context: 1 },
    { time: 10, weight: 3, fn: 1, event: 0, context: 2 },
    { time: 20, weight: 2, fn: 0, event: 0, context: 3 },
    { time: 30, weight: 1, fn: 2, event: 0, context: 0 },
    { time: 40, weight: 1, fn: 1, event: 0, context: 3 },
  ],
};

async function read(written: Written): Promise<Recording> {
  const unpacker = new Unpacker();
  await unpacker.add(nspy(written));
  return unpacker.finish();
}

// The tree as lines of names and weights, indented.
function drawn(names: Names, tree: Tree): string[] {
  const lines: string[] = [];
  for (let node = (ROOT + 1) as NodeIndex; node < tree.size; node++)
    lines.push(`${"  ".repeat(tree.depth[node] - 1)}${nameOf(names, tree.fn[node])} ${tree.total[node]}`);
  return lines;
}

function grouped(recording: Recording, route: number | null = null, isOfBase = false): string[] {
  const profile = hungByRoute(selected(recording, 0 as EventIndex));
  const shape = shapeOf(profile, false);
  const samples = isOfBase ? profile.base! : profile.samples;
  const own = ownWeights(profile, samples, { threads: null, range: null, route });
  const tree = treeOf(
    shape,
    marksOf(profile, shape, own),
    own,
    null,
    profile.event,
    "heavy",
    new Int32Array(0),
  );
  return drawn(profile, tree);
}

test("routes come after the functions of the recording, with what was in no request first", async () => {
  const recording = await read(SERVER);
  const names = recording.routes.map((fn) => nameOf(recording, fn));
  assert.deepEqual(names, ["(no request)", "GET /users/:id", "POST /orders"]);
  assert.deepEqual(recording.routes, [3, 4, 5]);
  assert.deepEqual(routeWeights(recording.samples[0 as EventIndex], 3), [1, 7, 3]);
});

test("grouped by route, stacks hang under their routes and no weight is lost", async () => {
  const recording = await read(SERVER);
  assert.deepEqual(grouped(recording), [
    "GET /users/:id 7",
    "  render 6",
    "  parse 1",
    "POST /orders 3",
    "  parse 3",
    "(no request) 1",
    "  poll 1",
  ]);
});

test("a filter keeps the samples of one route, also those in none", async () => {
  const recording = await read(SERVER);
  assert.deepEqual(grouped(recording, 2), ["POST /orders 3", "  parse 3"]);
  assert.deepEqual(grouped(recording, 0), ["(no request) 1", "  poll 1"]);
  const profile = selected(recording, 0 as EventIndex);
  const own = ownWeights(profile, profile.samples, { threads: null, range: { from: 0, to: 20 }, route: 1 });
  assert.deepEqual([...own], [4, 0, 0, 0]);
});

test("the routes of a base are those of the recording where they are called the same", async () => {
  const base = await read({
    ...SERVER,
    contexts: [{ route: "POST /orders" }, { route: "DELETE /orders" }],
    samples: [
      { time: 0, weight: 9, fn: 1, event: 0, context: 1 },
      { time: 10, weight: 8, fn: 1, event: 0, context: 2 },
    ],
  });
  const both = combined(await read(SERVER), base);
  const names = both.routes.map((fn) => nameOf(both, fn));
  assert.deepEqual(names, ["(no request)", "GET /users/:id", "POST /orders", "DELETE /orders"]);
  assert.deepEqual(grouped(both, null, true), [
    "POST /orders 9",
    "  parse 9",
    "DELETE /orders 8",
    "  parse 8",
  ]);
});

test("a recording without routes has none, and is not changed by grouping", async () => {
  const recording = await read({ ...SERVER, contexts: [{ trace: "1" }, {}, {}] });
  assert.deepEqual(recording.routes, []);
  assert.deepEqual(grouped(recording), ["render 6", "parse 4", "poll 1"]);
});

test("more routes than there is room for are one", async () => {
  const contexts = Array.from({ length: 1200 }, (_, at) => ({ route: `GET /${at}` }));
  const samples = contexts.map((_, at) => ({ time: at, weight: 1, fn: 0, event: 0, context: at + 1 }));
  const recording = await read({ ...SERVER, contexts, samples });
  assert.equal(recording.routes.length, 1001);
  const weights = routeWeights(recording.samples[0 as EventIndex], 1001);
  assert.equal(nameOf(recording, recording.routes[1000]), "(other routes)");
  assert.equal(weights[1000], 201);
});

test("async frames go where they are not wanted, and nothing else", () => {
  const profile = profileOf([0, 0, 0]);
  profile.frames.kind[1 as never] = ASYNC as never;
  const names = (hasAsync: boolean) => {
    const { fn, size } = shapeOf(profile, true, hasAsync);
    return Array.from({ length: size }, (_, at) => fn[at as never] as FunctionIndex);
  };
  assert.deepEqual(names(true), [-1, 0, 1, 2, -2]);
  assert.deepEqual(names(false), [-1, 0, 2, -2]);
});

test("route, grouping and async callers are in the address", () => {
  const state = { ...START, route: "GET /users/:id?x=1&y", isByRoute: true, hasAsync: false };
  assert.deepEqual(decodeState(encodeState(state)), state);
  assert.equal(encodeState({ ...START, isByRoute: true }), "by=route");
  assert.equal(decodeState("async=1").hasAsync, true);
});
