'use strict';
// Right answer: half of the main thread's time is in `compute`, which is plain arithmetic, and half in
// `subject` and what WHAT makes it call: fs, zlib, crypto, json, regexp (many short matches), backtrack
// (single matches that last hundreds of milliseconds), garbage, kernel (reads that the kernel fills),
// child (commands that are waited for), or none (arithmetic again).

const { execFileSync } = require('child_process');
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

const bytes = Buffer.alloc(64 * 1024, 'nodespy measures what is so. ');
const text = JSON.stringify(Array.from({ length: 500 }, (_, id) => ({ id, name: 'item ' + id, tags: ['a', 'b'] })));
const words = Array.from({ length: 200 }, (_, i) => 'order ' + i * 7919 + '-line' + i);

function spin(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 20000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

// Microseconds on a CPU: how long the program sleeps or waits for one is no matter.
function ran() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

// A match lasts twice as long for every letter: as many as make it last a fifth of a second.
let letters = 18;
function backtrack() {
  return /^(a+)+$/.test('a'.repeat(letters) + '!') ? 1 : 0;
}
if (process.env.WHAT === 'backtrack') {
  for (let took = 0; took < 200e3 && letters < 40; letters++) {
    const start = ran();
    backtrack();
    took = ran() - start;
  }
}

let kept = [];
const zeros = fs.openSync('/dev/zero', 'r');
const zeroed = Buffer.alloc(1024 * 1024);
const calls = {
  fs: () => fs.readFileSync(__filename).length + fs.statSync(__filename).size,
  zlib: () => zlib.deflateSync(bytes).length,
  crypto: () => crypto.createHash('sha256').update(bytes).digest()[0],
  json: () => JSON.parse(text).length,
  regexp: () => words.filter((word) => /(\d+)-([a-z]+)/.test(word)).length,
  backtrack,
  garbage: () => (kept = Array.from({ length: 20000 }, (_, i) => ({ i, next: [i] }))).length,
  kernel: () => fs.readSync(zeros, zeroed, 0, zeroed.length),
  child: () => execFileSync('/bin/true').length,
  none: () => spin(3),
};
const call = calls[process.env.WHAT || 'none'];

let result = 0;
function subject() {
  const start = ran();
  do result = result + call() | 0; while (ran() - start < 5000);
  return ran() - start;
}

function compute(length) {
  const start = ran();
  do result ^= spin(result); while (ran() - start < length);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 40 && (i < 2 || process.env.WHAT !== 'backtrack'); i++) compute(subject());
console.log('ready', kept.length);

(function again() {
  compute(subject());
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
