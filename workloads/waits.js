'use strict';
// Right answer: the main thread does what WHAT names, nine tenths of the time or more unless it is
// `mix`, and never idles meanwhile:
// `atomics`: waits in Atomics.wait, under waitForLock; `exec`: waits for a child, under runChild;
// `file`: waits for a file that nobody writes, under openPipe; `spin`: runs, or has no CPU, under spin;
// `page`: waits for memory that the addon ADDON provides late, under readMapped;
// `mix`: of every 100 ms it runs 30 under spin, waits 40 in Atomics.wait under waitForLock, and idles.
// The process sleeps between its turns in a timer, so that signals and timers are served.

const { execFileSync, execSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const what = process.env.WHAT || 'mix';
const stop = Date.now() + Number(process.env.MS || 300000);
const cell = new Int32Array(new SharedArrayBuffer(4));

function waitForLock(ms) { Atomics.wait(cell, 0, 0, ms); }
function runChild() { execSync('sleep 0.4'); }
function readMapped() { require(process.env.ADDON).touchSlowPage(); }
function spin(ms) { const end = Date.now() + ms; while (Date.now() < end); }

// Opening it waits until somebody opens the other end: a child does, after a while, both ends at once,
// so that it never waits itself.
function openPipe(name) { fs.closeSync(fs.openSync(name, 'r')); }
function makePipe() {
  const name = path.join(process.cwd(), `waits-${process.pid}.fifo`);
  execFileSync('mkfifo', [name]);
  process.on('exit', () => fs.unlinkSync(name));
  return name;
}

const pipe = what === 'file' ? makePipe() : '';
const turns = {
  atomics() { waitForLock(300); },
  exec: runChild,
  page: readMapped,
  file() {
    require('child_process').spawn('sh', ['-c', 'sleep 0.4; : <> "$0"', pipe], { stdio: 'ignore' });
    openPipe(pipe);
  },
  spin() { spin(100); },
  mix() { spin(30); waitForLock(40); },
};

setTimeout(function next() {
  const started = Date.now();
  turns[what]();
  if (Date.now() >= stop) return;
  setTimeout(next, what === 'mix' ? Math.max(1, 100 - (Date.now() - started)) : 1);
}, 1);
setTimeout(() => console.log('ready'), 200);
