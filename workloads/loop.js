'use strict';
// Right answer: the event loop is used for BUSY (30) of every 100 ms, under burn, and so is that of each
// of WORKERS (0) workers. At SIGUSR2 it says how much
// that was by Node's own account: an array of [milliseconds since 1970, used, unused so far], one for each turn.

const { isMainThread, Worker } = require('worker_threads');
const { performance } = require('perf_hooks');

function burn(ms) { const end = performance.now() + ms; while (performance.now() < end); }

const turns = [];
setInterval(() => {
  const { active, idle } = performance.eventLoopUtilization();
  if (isMainThread) turns.push([Date.now(), active, idle]);
  burn(Number(process.env.BUSY || 30));
}, 100);
if (isMainThread) {
  for (let number = 0; number < Number(process.env.WORKERS || 0); number++) new Worker(__filename);
  setTimeout(() => process.exit(), Number(process.env.MS || 300000));
  setTimeout(() => console.log('ready'), 500);
  process.on('SIGUSR2', () => console.log('utilization', JSON.stringify(turns)));
}
