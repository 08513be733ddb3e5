'use strict';
// Right answer: nearly all CPU time is in bottom, under exactly DEPTH (500) frames of descend.

const depth = Number(process.env.DEPTH || 500);

function bottom(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + i | 0;
  return hash;
}

function descend(level, seed) {
  if (level === 1) return bottom(seed);
  return descend(level - 1, seed) + 1 | 0;
}

const stop = Date.now() + Number(process.env.MS || 300000);
let result = 0;
for (let i = 0; i < 200; i++) result ^= descend(depth, i);
console.log('ready');

(function again() {
  result ^= descend(depth, result);
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
