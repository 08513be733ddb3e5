'use strict';
// Right answer: nearly all CPU time is in bottom; nine tenths of that under exactly DEPTH (500) frames
// of descend, one tenth under none.

const depth = Number(process.env.DEPTH || 500);

function bottom(level, seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

// One call site for both, through a table that V8 does not look into: inlined code is no frame.
const steps = [descend, bottom];
function descend(level, seed) {
  return steps[level === 1 ? 1 : 0](level - 1, seed) + 1 | 0;
}

// Which of the ten it is is random: samples come at regular times, which may keep step with the turns.
let result = 0;
function turn() {
  const alone = Math.floor(Math.random() * 10);
  for (let i = 0; i < 10; i++) result ^= steps[i === alone ? 1 : 0](depth, result);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 20; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
