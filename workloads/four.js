'use strict';
// Right answer: four threads are always busy, the main thread and three workers named `one`, `two` and
// `three`. Nearly all CPU time of each is in grind, and each has about a quarter of all there is.

const { Worker, isMainThread, parentPort } = require('worker_threads');

function grind(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

const stop = Date.now() + Number(process.env.MS || 300000);
let result = 0;
function again() {
  result ^= grind(result);
  if (Date.now() < stop) setImmediate(again);
}
for (let i = 0; i < 20; i++) result ^= grind(result);

if (isMainThread) {
  let warm = 0;
  for (const name of ['one', 'two', 'three']) {
    new Worker(__filename, { name }).on('message', () => {
      if (++warm === 3) { console.log('ready'); again(); }
    });
  }
} else {
  parentPort.postMessage('warm');
  again();
}
