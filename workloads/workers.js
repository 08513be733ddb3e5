'use strict';
// Right answer: two worker threads hold nearly all CPU time. The one named `resize` is only ever in
// resizeImages, the one named `parse` only ever in parseFeeds; the main thread waits. With ENDLESS=1
// neither function ever returns once it is warm.

const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function resizeImages(seed, rounds) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function parseFeeds(seed, rounds) {
  let hash = seed | 0;
  for (let i = 0; i < rounds; i++) hash = Math.imul(hash ^ (hash >>> 13), 0x297a2d39) ^ i;
  return hash;
}

// One call site for two functions, so V8 inlines neither: inlined code has no name in a perf map.
function rest(seed) { return seed + 1 | 0; }

const stop = Date.now() + Number(process.env.MS || 300000);

if (isMainThread) {
  let warm = 0;
  for (const name of ['resize', 'parse']) {
    new Worker(__filename, { name, workerData: name })
      .on('message', () => { if (++warm === 2) console.log('ready'); });
  }
} else {
  const jobs = [workerData === 'resize' ? resizeImages : parseFeeds, rest];
  let result = 0;
  const turn = () => { for (let i = 0; i < jobs.length; i++) result ^= jobs[i](result, 400000); };
  for (let i = 0; i < 200; i++) turn();
  parentPort.postMessage('warm');
  if (process.env.ENDLESS) setImmediate(() => jobs[0](result, Infinity));
  (function again() {
    turn();
    if (Date.now() < stop) setImmediate(again);
  })();
}
