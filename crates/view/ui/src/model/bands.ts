// What each thread did over time: how much of each moment it ran, collected garbage, waited.

import type { EventIndex, StackIndex, ThreadIndex } from "./indexes";
import { type EventType, FIRST_EVENT, type Profile, type Recording } from "./profile";
import { rowAt, type SampleColumns, timeOf, weightOf } from "./samples";
import { kindLabel, State, type StateKind } from "./states";
import { Category, ThreadRole } from "./tables";
import type { StateMask } from "./tree";

export interface Bands {
  bins: number;
  binNs: number;
  kinds: StateKind[]; // in the order in which they are drawn, from below
  threads: ThreadIndex[]; // main threads first, then workers, of all those that were idle the least
  known: number; // how many threads there are such bands of
  // How much of each bin, 0 to 1; thread after thread, bin after bin, kind after kind.
  shares: Float32Array;
  sums: Float64Array; // ns, thread after thread, kind after kind
  // How much of each bin the threads with an event loop collected garbage, loop after loop.
  gc: Float32Array;
}

const MIN_BIN = 10e6; // threads are polled a hundred times a second
const MIN_BINS = 20;
// Where samples do not say when a thread had no CPU, one has all of it: that is counted, but has no place.
const MAX_RUNNABLE = 1e9;

const RUNNING: StateKind = { state: State.Running, wait: "" };
const GC: StateKind = { state: State.Gc, wait: "" };

// Stacks with a frame of the collector.
export function gcStacks({ stacks, frames, functions }: Recording | Profile): Uint8Array {
  const isGc = new Uint8Array(stacks.frame.length);
  for (let row = 0 as StackIndex; row < isGc.length; row++) {
    const below = stacks.parent[row];
    const isOwn = functions.category[frames.fn[stacks.frame[row]]] === Category.Gc;
    isGc[row] = isOwn || (below >= 0 && isGc[below]) ? 1 : 0;
  }
  return isGc;
}

// The kind of each sample's state by its byte, for samples in and out of the collector.
class Kinds {
  readonly kinds: StateKind[];
  private readonly places: Uint8Array[];

  constructor(recorded: readonly StateKind[]) {
    // What has no state in an event beside others that do was running.
    const all = [RUNNING, ...recorded];
    const order = (kind: StateKind) => [kind.state, kind.wait] as const;
    const labels = new Map([RUNNING, GC, ...recorded].map((kind) => [kindLabel(kind), kind]));
    this.kinds = [...labels.values()].sort((left, right) => {
      const [[one, why], [other, because]] = [order(left), order(right)];
      return one - other || (why < because ? -1 : 1);
    });
    const placeOf = (kind: StateKind) =>
      this.kinds.findIndex((other) => kindLabel(other) === kindLabel(kind));
    this.places = [false, true].map((isGc) =>
      Uint8Array.from(all, (kind) => placeOf(isGc && kind.state === State.Running ? GC : kind)),
    );
  }

  of(byte: number, isGc: number): number {
    return this.places[isGc][byte] ?? 0;
  }
}

// Samples in a state. Those without one were running, if the recording has states at all.
export function stateMask(profile: Profile, wanted: State): StateMask {
  const states = [State.Running, ...profile.states.map(({ state }) => state)];
  const isWanted = (byte: number, isGc: number) => {
    const state = states[byte];
    return (isGc && state === State.Running ? State.Gc : state) === wanted;
  };
  return { isGc: gcStacks(profile), isWanted };
}

interface Lane {
  samples: SampleColumns;
  nsOf: (row: number) => number;
}

// How long a sample stands for.
function nsOf(samples: SampleColumns, { unit, rateHz }: EventType): ((row: number) => number) | null {
  if (unit === "nanoseconds") return (row) => weightOf(samples, row);
  return unit === "samples" && rateHz > 0 ? (row) => (weightOf(samples, row) * 1e9) / rateHz : null;
}

// The samples that tell states. Where no event says that threads ran, those that have no states do.
function lanesOf(recording: Recording): Lane[] {
  const { samples, events, states } = recording;
  const hasRunning = states.some(({ state }) => state === State.Running);
  const lane = (event: EventIndex, isWanted: boolean): Lane[] => {
    const ns = isWanted ? nsOf(samples[event], events[event]) : null;
    return ns ? [{ samples: samples[event], nsOf: ns }] : [];
  };
  const hasState = (event: EventIndex) => samples[event].state?.some((byte) => byte > 0) ?? false;
  const all = [...events.keys()] as EventIndex[];
  const told = all.filter(hasState);
  const ran = all.filter((event) => !told.includes(event)).slice(0, hasRunning ? 0 : 1);
  return [...told, ...ran].flatMap((event) => lane(event, true));
}

// Each sample tells what its thread did until then.
function eachPart(
  { samples, nsOf }: Lane,
  row: number,
  binNs: number,
  bins: number,
  take: (bin: number, ns: number) => void,
): void {
  const to = Math.min(timeOf(samples, row), bins * binNs);
  const from = Math.max(0, to - nsOf(row));
  for (let bin = Math.floor(from / binNs); bin < bins && bin * binNs < to; bin++)
    take(bin, Math.min(to, (bin + 1) * binNs) - Math.max(from, bin * binNs));
}

export function bandsOf(recording: Recording, maxBins: number, maxThreads: number): Bands {
  const bins = Math.max(MIN_BINS, Math.min(maxBins, Math.floor(recording.end / MIN_BIN)));
  const binNs = recording.end / bins;
  const isGc = gcStacks(recording);
  const table = new Kinds(recording.states);
  const { kinds } = table;
  const kindAt = (samples: SampleColumns, row: number) =>
    table.of(samples.state?.[row] ?? 0, samples.stack[row] >= 0 ? isGc[samples.stack[row]] : 0);
  const lanes = recording.states.length ? lanesOf(recording) : [];
  const all = new Float64Array(recording.threads.length * kinds.length);
  for (const { samples, nsOf } of lanes) {
    const { thread } = samples;
    for (let row = 0; row < thread.length; row++)
      all[thread[row] * kinds.length + kindAt(samples, row)] += nsOf(row);
  }
  const { threads, known } = chosen(recording, kinds, all, maxThreads);
  const placeOf = new Int32Array(recording.threads.length).fill(-1);
  threads.forEach((thread, place) => (placeOf[thread] = place));
  const shares = new Float32Array(threads.length * bins * kinds.length);
  for (const lane of lanes) {
    const { samples } = lane;
    const { thread } = samples;
    for (let row = 0; row < thread.length; row++) {
      const place = placeOf[thread[row]];
      if (place < 0) continue;
      const kind = kindAt(samples, row);
      if (kinds[kind].state === State.Runnable && lane.nsOf(row) > MAX_RUNNABLE) continue;
      const first = place * bins * kinds.length + kind;
      eachPart(lane, row, binNs, bins, (bin, ns) => (shares[first + bin * kinds.length] += ns / binNs));
    }
  }
  withinOne(shares, kinds.length);
  return {
    bins,
    binNs,
    kinds,
    threads,
    known,
    shares,
    sums: Float64Array.from({ length: threads.length * kinds.length }, (_, at) => {
      const thread = threads[Math.floor(at / kinds.length)];
      return all[thread * kinds.length + (at % kinds.length)];
    }),
    gc: gcOfLoops(recording, isGc, bins, binNs),
  };
}

// The threads that are shown: those that did the most.
function chosen(
  { threads }: Recording,
  kinds: StateKind[],
  sums: Float64Array,
  maxThreads: number,
): { threads: ThreadIndex[]; known: number } {
  const rank = (thread: ThreadIndex) => {
    const { role } = threads[thread];
    return role === ThreadRole.Main ? 0 : role === ThreadRole.Worker ? 1 : 2;
  };
  const busy = new Float64Array(threads.length);
  const isKnown = new Uint8Array(threads.length);
  for (let at = 0; at < sums.length; at++) {
    const thread = Math.floor(at / kinds.length);
    if (sums[at] > 0) isKnown[thread] = 1;
    if (kinds[at % kinds.length].state !== State.Idle) busy[thread] += sums[at];
  }
  const known = ([...threads.keys()] as ThreadIndex[]).filter((thread) => isKnown[thread]);
  known.sort((left, right) => rank(left) - rank(right) || busy[right] - busy[left]);
  return { threads: known.slice(0, maxThreads), known: known.length };
}

// Times are rounded, and polls are late: what is too much is taken from all alike.
function withinOne(shares: Float32Array, kinds: number): void {
  for (let first = 0; first < shares.length; first += kinds) {
    let sum = 0;
    for (let at = first; at < first + kinds; at++) sum += shares[at];
    if (sum > 1) for (let at = first; at < first + kinds; at++) shares[at] /= sum;
  }
}

function gcOfLoops(recording: Recording, isGc: Uint8Array, bins: number, binNs: number): Float32Array {
  const { loops } = recording.watched;
  const gc = new Float32Array(loops.length * bins);
  const samples = recording.samples[FIRST_EVENT];
  if (!isGc.includes(1)) return gc;
  const ns = loops.length && samples ? nsOf(samples, recording.events[FIRST_EVENT]) : null;
  if (!ns) return gc;
  const placeOf = new Int32Array(recording.threads.length).fill(-1);
  loops.forEach(({ thread }, place) => (placeOf[thread] = place));
  const lane = { samples, nsOf: ns };
  const { thread, stack } = samples;
  for (let row = 0; row < stack.length; row++) {
    if (!isGc[stack[row]]) continue; // most samples are not; neither are those without a stack
    const place = placeOf[thread[row]];
    if (place < 0) continue;
    eachPart(lane, row, binNs, bins, (bin, time) => (gc[place * bins + bin] += time / binNs));
  }
  return gc;
}

export interface Culprit {
  fn: number; // -1 where there are no samples
  share: number;
  wait: string; // what it mostly waited for; empty where it ran
}

// The function that most of a thread's time is charged to: the nearest one with a source below what
// was sampled, as Rust does it for the same stall.
export function culpritOf(profile: Profile, thread: ThreadIndex, from: number, to: number): Culprit {
  const { samples, stacks, frames, functions, states } = profile;
  const weights = new Map<number, { weight: number; waits: Map<string, number> }>();
  let whole = 0;
  const end = rowAt(samples, to);
  for (let row = rowAt(samples, from); row < end; row++) {
    if (samples.thread[row] !== thread) continue;
    const kind = states[(samples.state?.[row] ?? 0) - 1];
    if (kind?.state === State.Idle || samples.stack[row] < 0) continue;
    const leaf = samples.stack[row];
    let at = leaf;
    const isWritten = (stack: StackIndex) => {
      const category = functions.category[frames.fn[stacks.frame[stack]]];
      return category === Category.App || category === Category.Dependency;
    };
    while (at >= 0 && !isWritten(at)) at = stacks.parent[at];
    const fn = frames.fn[stacks.frame[at >= 0 ? at : leaf]];
    const weight = weightOf(samples, row);
    whole += weight;
    let known = weights.get(fn);
    if (!known) weights.set(fn, (known = { weight: 0, waits: new Map() }));
    known.weight += weight;
    const wait = kind?.state === State.Waiting ? kind.wait : "";
    known.waits.set(wait, (known.waits.get(wait) ?? 0) + weight);
  }
  const heaviest = [...weights].sort(([, left], [, right]) => right.weight - left.weight)[0];
  if (!heaviest) return { fn: -1, share: 0, wait: "" };
  const [fn, { weight, waits }] = heaviest;
  const [wait] = [...waits].sort(([, left], [, right]) => right - left)[0];
  return { fn, share: weight / whole, wait };
}
