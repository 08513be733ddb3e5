'use strict';
// Right answer: the main thread waits in a synchronous call, inside waitForIt. HOW says in which:
// `exec` (execSync, which waits in spawnSync), `atomics` (Atomics.wait) or `pipe` (fs.readSync of a
// pipe nobody writes to; this one does not end by itself). With `sleep` the event loop is idle.

const { execFileSync, execSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const ms = Number(process.env.MS || 300000);

function openEmptyPipe() {
  const name = path.join(os.tmpdir(), `nodespy-blocked-${process.pid}`);
  execFileSync('mkfifo', [name]);
  // Open for writing too, so that it never ends.
  const pipe = fs.openSync(name, 'r+');
  fs.unlinkSync(name);
  return pipe;
}

const ways = {
  exec: () => execSync(`sleep ${Math.ceil(ms / 1000)}`),
  atomics: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  pipe: () => fs.readSync(openEmptyPipe(), Buffer.alloc(1)),
  sleep: () => setTimeout(() => {}, ms),
};

function waitForIt(how) {
  return ways[how]();
}

setTimeout(() => {
  console.log('ready');
  setTimeout(() => waitForIt(process.env.HOW || 'exec'), 1);
}, 10);
