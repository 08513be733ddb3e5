'use strict';
// Right answer: the event loop is used for BUSY (30) of every 100 ms, under burn, and so is that of each
// of WORKERS (0) workers. At SIGUSR2 it says how much
// that was by Node's own account since the last.

const { isMainThread, Worker } = require('worker_threads');
const { performance } = require('perf_hooks');

function burn(ms) { const end = performance.now() + ms; while (performance.now() < end); }

setInterval(() => burn(Number(process.env.BUSY || 30)), 100);
if (isMainThread) {
  for (let number = 0; number < Number(process.env.WORKERS || 0); number++) new Worker(__filename);
  setTimeout(() => process.exit(), Number(process.env.MS || 300000));
  setTimeout(() => console.log('ready'), 500);
  let last = performance.eventLoopUtilization();
  process.on('SIGUSR2', () => {
    const now = performance.eventLoopUtilization();
    console.log('utilization', performance.eventLoopUtilization(now, last).utilization);
    last = now;
  });
}
