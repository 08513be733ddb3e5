// Recordings of several events: each is counted by itself, whatever the bytes say.

import assert from "node:assert/strict";
import { test } from "node:test";
import { combined } from "../src/model/combine";
import type { EventIndex, FunctionIndex } from "../src/model/indexes";
import { type Recording, selected } from "../src/model/profile";
import { timeOf, weightOf } from "../src/model/samples";
import { ROOT, type Tree } from "../src/model/tree";
import { Unpacker } from "../src/model/unpack";
import { type Message, type Opened, type Reply, type Selection, serve } from "../src/worker";
import { random } from "./naive";
import { nspy, Section, type Written, type WrittenSample } from "./nspy";

const SAMPLES: WrittenSample[] = [
  { time: 0, weight: 600, fn: 0, event: 0 },
  { time: 10, weight: 3, fn: 1, event: 1 },
  { time: 300, weight: 4096, fn: 2, event: 2 },
  { time: 310, weight: 400, fn: 0, event: 0 },
  { time: 320, weight: 1, fn: 0, event: 1 },
];
const THREE: Written = {
  functions: ["spin", "touch", "allocate"],
  events: [
    { name: "cpu-clock", unit: 1, rateHz: 99 },
    { name: "page-faults", unit: 3, rateHz: 0 },
    { name: "alloc_space", unit: 2, rateHz: 0 },
  ],
  samples: SAMPLES,
};

async function read(written: Written): Promise<Recording> {
  const unpacker = new Unpacker();
  await unpacker.add(nspy(written));
  return unpacker.finish();
}

// Time, weight and function of the samples of each event.
const rowsOf = ({ samples }: Recording): number[][][] =>
  samples.map((each) =>
    Array.from(each.time, (_, row) => [timeOf(each, row), weightOf(each, row), each.stack[row]]),
  );

test("every event has its own samples, unit and rate", async () => {
  const recording = await read(THREE);
  assert.deepEqual(recording.events, [
    { name: "cpu-clock", unit: "nanoseconds", rateHz: 99 },
    { name: "page-faults", unit: "events", rateHz: 0 },
    { name: "alloc_space", unit: "bytes", rateHz: 0 },
  ]);
  assert.deepEqual(rowsOf(recording), [
    [
      [0, 600, 0],
      [310, 400, 0],
    ],
    [
      [10, 3, 1],
      [320, 1, 0],
    ],
    [[300, 4096, 2]],
  ]);
  assert.equal(recording.end, 1000, "of the whole recording, for every event");
});

test("weights that follow from the next sample stay right without that sample", async () => {
  const recording = await read({ ...THREE, isUntilNext: true });
  const weights = recording.samples.map((each) => Array.from(each.time, (_, row) => weightOf(each, row)));
  assert.deepEqual(weights, [[10, 10], [290, 1], [10]]);
});

test("random samples of random events come back event by event", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const next = random(seed * 7919);
    const events = Array.from({ length: 1 + next(5) }, (_, at) => ({
      name: `e${at}`,
      unit: at % 4,
      rateHz: 0,
    }));
    let time = 0;
    const samples = Array.from({ length: 1 + next(80) }, () => ({
      time: (time += next(600)),
      weight: next(3) ? 1 + next(9) : 2 ** 33,
      fn: next(3),
      event: next(events.length),
    }));
    const recording = await read({ ...THREE, events, samples });
    const expected = events.map((_, at) =>
      samples.filter(({ event }) => event === at).map(({ time, weight, fn }) => [time, weight, fn]),
    );
    assert.deepEqual(rowsOf(recording), expected, `seed ${seed}`);
  }
});

test("one tag may stand for all samples, and none for the first event", async () => {
  const one = await read({ ...THREE, tags: new Section().number(0, 2, 0, 0) });
  assert.deepEqual(
    one.samples.map(({ time }) => time.length),
    [0, 0, 5],
  );
  const single = await read({ ...THREE, events: THREE.events.slice(0, 1), tags: new Section().number(0, 0) });
  assert.deepEqual(
    single.samples.map(({ time }) => time.length),
    [5],
  );
});

test("hostile events are refused with a reason", async () => {
  const cases: [Partial<Written>, RegExp][] = [
    [{ tags: new Section().number(1, 5, 0, 1, 3, 0, 1) }, /event 3 of 3/],
    [{ tags: new Section().number(0, 2n ** 63n) }, /event \d+ of 3/],
    [{ tags: new Section().number(1, 5, 0, 65536, 0, 0, 0) }, /event 65536 of 3/],
    [{ tags: new Section().number(1, 4, 0, 1, 2, 0) }, /4 of 5 samples have an event/],
    [{ tags: new Section().number(1, 2n ** 40n, 0) }, /too many rows/],
    [{ tags: new Section().number(1, 5, 0, 1) }, /too many rows|ends early/],
    [{ tags: new Section().number(7) }, /unknown kind of tags/],
    [{ tags: new Section() }, /ends early/],
    [{ eventTable: new Section().number(2n ** 50n) }, /too many rows/],
    [{ eventTable: new Section().number(1).number(2n ** 40n) }, /do not fit/],
    [{ eventTable: new Section().number(2).text("cycles").number(3, 0) }, /ends early/],
    [{ version: 6 }, /cannot read version 6/],
  ];
  for (const [part, reason] of cases) await assert.rejects(read({ ...THREE, ...part }), reason);
  const many = new Section().number(1025);
  for (let row = 0; row < 1025; row++) many.text("").number(0, 0, 0);
  await assert.rejects(read({ ...THREE, eventTable: many }), /1025 events, of which 1024 are read/);
});

test("an event is compared with the one of its name, the first also with another first", async () => {
  const base = await read({ ...THREE, events: [...THREE.events].reverse() });
  const both = combined(await read(THREE), base);
  const weights = both.base.map((each) => each && Array.from(each.time, (_, row) => weightOf(each, row)));
  assert.deepEqual(weights, [[4096], [3, 1], [600, 400]]);
  const other = await read({
    ...THREE,
    events: [{ name: "cycles", unit: 3, rateHz: 0 }],
    tags: new Section().number(0, 0),
  });
  const first = combined(await read(THREE), other);
  assert.deepEqual(
    first.base.map((each) => each?.time.length ?? null),
    [5, null, null],
  );
  assert.equal(selected(first, 1 as EventIndex).base, null);
});

// A worker that answers one message after the other.
function startWorker(): (kind: Message["kind"], ask: unknown) => Promise<unknown> {
  const side = globalThis as unknown as {
    onmessage: (event: { data: Message }) => void;
    postMessage: (reply: Reply) => void;
  };
  const waiting = new Map<number, (reply: Reply) => void>();
  side.postMessage = (reply) => waiting.get(reply.id)!(reply);
  serve();
  let next = 1;
  return (kind, ask) =>
    new Promise((resolve, reject) => {
      const id = next++;
      waiting.set(id, (reply) => ("error" in reply ? reject(new Error(reply.error)) : resolve(reply.answer)));
      side.onmessage({ data: { id, kind, ask } });
    });
}

test("the worker counts the event it is asked for, and switches back", async () => {
  const ask = startWorker();
  await ask("chunks", { of: "recording", chunks: [nspy(THREE)] });
  const opened = (await ask("open", { subsystemOf: "" })) as Opened;
  assert.deepEqual(opened.samples, [2, 2, 1]);
  const heaviest = async (event: number) => {
    const selection: Selection = {
      event: event as EventIndex,
      threads: null,
      only: null,
      isByState: false,
      route: null,
      isByRoute: false,
      range: null,
      compare: null,
      hidden: [],
      hasInternals: false,
      hasAsync: true,
      transforms: [],
      order: "heavy",
    };
    const { tree, whole } = (await ask("tree", { selection })) as { tree: Tree; whole: number };
    const name = opened.names.texts.get(opened.names.functions.name[tree.fn[1 as never] as FunctionIndex]);
    return [whole, tree.total[ROOT], tree.event.unit, name];
  };
  assert.deepEqual(await heaviest(0), [1000, 1000, "nanoseconds", "spin"]);
  assert.deepEqual(await heaviest(1), [4, 4, "events", "touch"]);
  assert.deepEqual(await heaviest(2), [4096, 4096, "bytes", "allocate"]);
  assert.deepEqual(await heaviest(0), [1000, 1000, "nanoseconds", "spin"]);
  const heat = (await ask("heat", { event: 2, threads: null, maxColumns: 50, maxRows: 20 })) as {
    counts: Float64Array;
    event: { unit: string };
  };
  const counted = heat.counts.reduce((sum, weight) => sum + weight, 0);
  assert.deepEqual([counted, heat.event.unit], [4096, "bytes"]);
});
