// Sections about states, loops and pools, and the bands of threads.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bandsOf, culpritOf, stateMask } from "../src/model/bands";
import { type EventIndex, plain, type ThreadIndex } from "../src/model/indexes";
import { type Recording, selected } from "../src/model/profile";
import { kindLabel, State } from "../src/model/states";
import { ownWeights } from "../src/model/tree";
import { Unpacker } from "../src/model/unpack";
import { longestOf, rangeOf, rangeOfPause } from "../src/model/watched";
import { decodeState, encodeState, START } from "../src/page/state";
import { nspy, type Written } from "./nspy";

const MS = 1e6;
const NS = 1; // the unit of weights

// One thread, of which samples tell what it did until then: 100 ms running, 50 ms waiting for a file,
// 30 ms in the collector, 20 ms runnable; from 200 ms on idle.
const SAMPLES: Written["samples"] = [
  { time: 100 * MS, weight: 100 * MS, fn: 0, event: 0, context: 1 },
  { time: 150 * MS, weight: 50 * MS, fn: 1, event: 0, context: 2 },
  { time: 180 * MS, weight: 30 * MS, fn: 2, event: 0, context: 1 },
  { time: 200 * MS, weight: 20 * MS, fn: 0, event: 0, context: 3 },
  { time: 400 * MS, weight: 200 * MS, fn: 1, event: 0, context: 4 },
];
const CONTEXTS: Record<string, string>[] = [
  { state: "on-cpu" },
  { state: "waiting", wait: "file" },
  { state: "runnable" },
  { state: "idle", wait: "events" },
];
const WATCHED: Written = {
  functions: ["work", "read", "scavenge"],
  categories: [0, 0, 6],
  events: [{ name: "wall", unit: NS, rateHz: 99 }],
  samples: SAMPLES,
  contexts: CONTEXTS,
  durationNs: 400 * MS,
  loops: [
    {
      thread: 0,
      doublings: 1,
      first: 1,
      intervals: [
        [100 * MS, 25 * MS],
        [100 * MS, 100 * MS],
      ],
      stalls: [
        [150 * MS, 120 * MS],
        [20 * MS, 200 * MS],
      ],
    },
  ],
  pools: [{ process: 0, doublings: 0, first: 0, intervals: [[2, 8, 5]] }],
};

async function opened(written: Written): Promise<Recording> {
  const unpacker = new Unpacker();
  await unpacker.add(nspy(written));
  return unpacker.finish();
}

test("the pauses of the collector belong to the loop of their thread", async () => {
  const pauses: Written["pauses"] = [
    [100 * MS, 5 * MS, 0],
    [20 * MS, 9 * MS, 1],
    [10 * MS, MS, 7],
  ];
  const { watched } = await opened({ ...WATCHED, pauses });
  const found = watched.loops[0].pauses;
  assert.deepEqual(found, [
    { start: 100 * MS, lasted: 5 * MS, kind: "scavenge" },
    { start: 120 * MS, lasted: 9 * MS, kind: "mark-compact" },
    { start: 130 * MS, lasted: MS, kind: "other" },
  ]);
  assert.equal(longestOf(found), found[1]);
  assert.deepEqual(rangeOfPause(found[1]), { from: 120 * MS, to: 129 * MS });
});

test("loops and pools over time are read", async () => {
  const { watched, states } = await opened(WATCHED);
  const [loop] = watched.loops;
  assert.deepEqual([loop.thread, loop.lengthNs, loop.first], [0, 100 * MS, 1]);
  assert.deepEqual([...loop.busy], [25 * MS, 100 * MS]);
  assert.deepEqual(loop.stalls, [
    { start: 150 * MS, lasted: 120 * MS },
    { start: 170 * MS, lasted: 200 * MS },
  ]);
  assert.equal(longestOf(loop.stalls), loop.stalls[1]);
  // Until the look after it, or the end.
  assert.deepEqual(rangeOf(loop.stalls[1], 400 * MS), { from: 170 * MS, to: 400 * MS });
  const [pool] = watched.pools;
  assert.deepEqual([pool.lengthNs, ...pool.readings, ...pool.busy, ...pool.waiting], [50 * MS, 2, 8, 5]);
  assert.deepEqual(states.map(kindLabel), ["running", "waiting for file", "runnable", "idle"]);
});

test("a recording without them has none, and more intervals than there can be are refused", async () => {
  const { watched, states, samples } = await opened({
    ...WATCHED,
    contexts: undefined,
    loops: undefined,
    pools: undefined,
    samples: SAMPLES.map((sample) => ({ ...sample, context: 0 })),
  });
  assert.deepEqual([watched.loops, watched.pools, states], [[], [], []]);
  assert.equal(samples[0 as EventIndex].state, null);
  const beyond = { ...WATCHED.pools![0], first: 2048 };
  await assert.rejects(opened({ ...WATCHED, pools: [beyond] }), /intervals that can't be/);
});

test("a known profile gives known bands", async () => {
  const recording = await opened(WATCHED);
  const bands = bandsOf(recording, 40, 4);
  assert.deepEqual([bands.bins, Math.round(bands.binNs), bands.known], [40, 10 * MS, 1]);
  assert.deepEqual(bands.threads, [0]);
  assert.deepEqual(bands.kinds.map(kindLabel), ["running", "GC", "runnable", "waiting for file", "idle"]);
  assert.deepEqual(
    [...bands.sums],
    [100, 30, 20, 50, 200].map((ms) => ms * MS),
  );
  const at = (bin: number) =>
    bands.kinds.map((_, kind) => Math.round(100 * bands.shares[bin * bands.kinds.length + kind]));
  assert.deepEqual(at(0), [100, 0, 0, 0, 0]);
  assert.deepEqual(at(9), [100, 0, 0, 0, 0]);
  assert.deepEqual(at(10), [0, 0, 0, 100, 0]);
  assert.deepEqual(at(17), [0, 100, 0, 0, 0]);
  assert.deepEqual(at(18), [0, 0, 100, 0, 0]);
  assert.deepEqual(at(39), [0, 0, 0, 0, 100]);
  // In bins of 20 ms one has two halves.
  const coarse = bandsOf(recording, 20, 4);
  const half = coarse.shares.subarray(7 * 5, 8 * 5);
  assert.deepEqual(
    [...half].map((share) => Math.round(100 * share)),
    [0, 50, 0, 50, 0],
  );
  // The collector on the thread of a loop.
  assert.deepEqual(
    [...coarse.gc.subarray(6, 10)].map((share) => Math.round(100 * share)),
    [0, 50, 100, 0],
  );
});

test("what a thread did in a state, and in a stall", async () => {
  const profile = selected(await opened(WATCHED), 0 as EventIndex);
  const weights = (state: State) => {
    const only = stateMask(profile, state);
    const own = ownWeights(profile, profile.samples, { threads: null, range: null, only });
    return [...own].map((weight) => weight / MS);
  };
  assert.deepEqual(weights(State.Running), [100, 0, 0, 0]);
  assert.deepEqual(weights(State.Gc), [0, 0, 30, 0]);
  assert.deepEqual(weights(State.Waiting), [0, 50, 0, 0]);
  assert.deepEqual(weights(State.Idle), [0, 200, 0, 0]);
  const thread = 0 as ThreadIndex;
  const culprit = culpritOf(profile, thread, 120 * MS, 190 * MS);
  assert.deepEqual({ ...culprit, share: culprit.share.toFixed(3) }, { fn: 1, share: "0.625", wait: "file" });
  assert.equal(culpritOf(profile, thread, 210 * MS, 390 * MS).fn, -1);
  assert.equal(plain(profile.samples.stack).length, 5);
});

test("what had no CPU for long is counted, but nobody knows when", async () => {
  const late = { time: 390 * MS, weight: 3000 * MS, fn: 0, event: 0, context: 3 };
  const recording = await opened({ ...WATCHED, samples: [...SAMPLES.slice(0, 4), late] });
  const { kinds, sums, shares } = bandsOf(recording, 40, 4);
  const runnable = kinds.findIndex(({ state }) => state === State.Runnable);
  assert.equal(sums[runnable], 3020 * MS);
  assert.equal(shares[38 * kinds.length + runnable], 0);
});

test("a state stands in the address", () => {
  assert.equal(encodeState({ ...START, only: State.Waiting }), "st=waiting");
  for (const only of [State.Gc, State.Running, null])
    assert.equal(decodeState(encodeState({ ...START, only })).only, only);
  assert.equal(decodeState("st=asleep").only, null);
});
