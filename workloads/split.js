'use strict';
// Right answer: of the CPU time in the two, seventyPercent has 70 % and thirtyPercent has 30 %.
// Both run the same body, so the split is by count: seven calls of one for three of the other.

const rounds = 100000;

// Each step waits for the multiplication before it, so the time does not hang on how the loop
// happens to be aligned.
function seventyPercent(seed) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + i | 0;
  return hash;
}

function thirtyPercent(seed) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + i | 0;
  return hash;
}

// One call site for both: V8 inlines neither into turn, whose name would swallow theirs.
const plan = [0, 1, 0, 0, 1, 0, 0, 1, 0, 0].map((which) => [seventyPercent, thirtyPercent][which]);

let result = 0;
function turn() {
  for (let i = 0; i < plan.length; i++) result ^= plan[i](result + i);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 200; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
