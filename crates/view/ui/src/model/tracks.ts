// How busy each thread was over time.

import { idleStacks, stepOf } from "./heat";
import type { Profile } from "./profile";
import { timeOf, weightOf } from "./samples";

export interface Tracks {
  bins: number;
  binNs: number;
  // Share of a processor by thread and bin, 0 to 1; thread after thread.
  busy: Float32Array;
  weights: Float64Array; // of each thread, idle time left out
}

const MIN_BINS = 20;
const SAMPLES_A_BIN = 4;

export function tracks(profile: Profile, maxBins: number): Tracks {
  const { samples, threads, end } = profile;
  const bins = Math.max(MIN_BINS, Math.min(maxBins, Math.floor(end / (SAMPLES_A_BIN * stepOf(profile)))));
  const binNs = end / bins;
  const busy = new Float32Array(threads.length * bins);
  const weights = new Float64Array(threads.length);
  const isIdle = idleStacks(profile);
  for (let row = 0; row < samples.time.length; row++) {
    const stack = samples.stack[row];
    if (stack >= 0 && isIdle[stack]) continue;
    const thread = samples.thread[row];
    const weight = weightOf(samples, row);
    weights[thread] += weight;
    busy[thread * bins + Math.min(bins - 1, Math.floor(timeOf(samples, row) / binNs))] += weight;
  }
  const whole = fullBin(profile, binNs, busy);
  for (let at = 0; at < busy.length; at++) busy[at] = Math.min(1, busy[at] / whole);
  return { bins, binNs, busy, weights };
}

// The weight of a bin in which a thread does nothing but run.
function fullBin(profile: Profile, binNs: number, busy: Float32Array): number {
  const { unit, rateHz } = profile.event;
  if (unit === "nanoseconds") return binNs;
  if (unit === "samples" && rateHz > 0) return (rateHz * binNs) / 1e9;
  return busy.reduce((most, value) => Math.max(most, value), 1e-9);
}
