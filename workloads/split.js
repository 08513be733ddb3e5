'use strict';
// Right answer: of the CPU time in the two, seventyPercent has 70 % and thirtyPercent has 30 %.
// Both run the same body, so the split is by count: 700 calls of one for 300 of the other.

const rounds = 100000;

// Each step waits for the multiplication before it, so the time does not hang on how the loop
// happens to be aligned. All values are 32-bit integers, so that V8 never has to change its mind.
function seventyPercent(seed) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function thirtyPercent(seed) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

// A fixed shuffle of 700 and 300 calls. In a short pattern the same places would come around in step
// with the sampling, and a profiler that is right would still see something else than 70 and 30.
const plan = Array.from({ length: 1000 }, (_, i) => (i < 700 ? seventyPercent : thirtyPercent));
for (let i = plan.length - 1, random = 1; i > 0; i--) {
  random = Math.imul(random, 1664525) + 1013904223 | 0;
  const other = (random >>> 8) % (i + 1);
  [plan[i], plan[other]] = [plan[other], plan[i]];
}

// One call site for both, so V8 inlines neither: inlined code has no name in a perf map.
let result = 0;
let at = 0;
function turn() {
  for (let i = 0; i < 10; i++) {
    result ^= plan[at](result ^ i);
    at = (at + 1) % plan.length;
  }
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 200; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
