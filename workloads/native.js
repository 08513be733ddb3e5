'use strict';
// Right answer: of the CPU time in the three, jsonWork has 50 %, regexpWork 30 %, hashWork 20 %, by
// budgets of time. Most of it is native: V8's JSON parser and writer, OpenSSL's SHA-256; the regular
// expression is compiled code of its own.

const crypto = require('crypto');

const records = Array.from({ length: 200 }, (_, i) => ({ id: i, name: 'record-' + i, tags: ['a' + i % 7, 'b' + i % 11] }));
const json = JSON.stringify(records);
const line = 'word '.repeat(400) + 'key-12345=value;';
const bytes = Buffer.alloc(64 * 1024, 'nodespy');

function jsonWork() { return JSON.stringify(JSON.parse(json)).length; }
function regexpWork() { return /(?:[a-z]+ )+key-(\d+)=([a-z]+);/.exec(line)[1].length; }
function hashWork() { return crypto.createHash('sha256').update(bytes).digest('hex').length; }

let result = 0;
const spent = { jsonWork: 0, regexpWork: 0, hashWork: 0 };
const least = { jsonWork: Infinity, regexpWork: Infinity, hashWork: Infinity };
const budget = { jsonWork: 0.5, regexpWork: 0.3, hashWork: 0.2 };
const work = [jsonWork, regexpWork, hashWork];

// Bursts of uneven length: an even rhythm of about a millisecond would beat with the sampling rate.
let seed = 1;
function burst() {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return 1 + (seed >>> 16) % 9;
}

// Runs whichever is furthest behind its budget, so that the split holds over any stretch of time.
function turn() {
  for (let i = 0; i < 20; i++) {
    let next = work[0];
    for (const candidate of work) {
      if (spent[candidate.name] / budget[candidate.name] < spent[next.name] / budget[next.name]) next = candidate;
    }
    const calls = burst();
    const before = process.hrtime();
    for (let j = calls; j > 0; j--) result += next();
    const [seconds, nanoseconds] = process.hrtime(before);
    const took = seconds * 1e9 + nanoseconds;
    // A turn that was interrupted by the machine says nothing about the work: count at most 2 ms, or four times what so
    // many calls took when they were fastest.
    least[next.name] = Math.min(least[next.name], took / calls);
    spent[next.name] += Math.min(took, Math.max(2e6, 4 * calls * least[next.name]));
  }
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 100; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
