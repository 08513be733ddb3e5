'use strict';
// Right answer: the main thread and a worker pass a turn to and fro with Atomics and wait for it in between, both under
// takeTurns: thousands of context switches for each second of CPU time, and hardly anything else.

const { Worker, isMainThread, workerData } = require('worker_threads');

const stop = Date.now() + Number(process.env.MS || 300000);
const turn = new Int32Array(isMainThread ? new SharedArrayBuffer(4) : workerData);

function takeTurns(other) {
  while (Date.now() < stop) {
    Atomics.wait(turn, 0, other, 1000);
    Atomics.store(turn, 0, other);
    Atomics.notify(turn, 0);
  }
}

if (isMainThread) {
  new Worker(__filename, { workerData: turn.buffer }).once('online', () => {
    console.log('ready');
    // Not before the line is written.
    setTimeout(() => takeTurns(1), 100);
  });
} else {
  takeTurns(0);
}
