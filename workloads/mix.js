'use strict';
// Right answer: of the time under `work`, about half is under sortRecords (and the arrow it sorts by),
// a third under parseJson and a sixth under matchRoutes, which take turns by the clock: 30, 20 and 10 ms.
// The pool deflates and hashes a little meanwhile, unless POOL=0.

require('./truth').start();

const crypto = require('crypto');
const zlib = require('zlib');

function until(ms, body) {
  const end = process.hrtime.bigint() + BigInt(ms) * 1000000n;
  let count = 0;
  while (process.hrtime.bigint() < end) count += body();
  return count;
}

const records = Array.from({ length: 400 }, (_, i) => ({ id: (i * 7919) % 997, name: 'record-' + i, tags: ['a' + i % 7, 'b' + i % 11] }));
const text = JSON.stringify(records);
class Router {
  constructor() {
    this.routes = Array.from({ length: 40 }, (_, i) => new RegExp(`^/api/v${i % 3}/item${i}/(\\d+)/(?:[a-z]+-)*end$`));
  }
  match(path) {
    for (const route of this.routes) { const found = route.exec(path); if (found) return found[1].length; }
    return 0;
  }
}
const router = new Router();

function sortRecords() {
  const copy = records.slice();
  copy.sort((one, other) => one.id - other.id || (one.name < other.name ? -1 : 1));
  return copy.length;
}
function parseJson() { return JSON.parse(text).length; }
const matchRoutes = () => router.match('/api/v1/item37/12345/ab-cd-ef-end');
function work() { until(30, sortRecords); until(20, parseJson); until(10, matchRoutes); }

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 10; i++) work();
console.log('ready');

(function again() {
  work();
  if (process.env.POOL !== '0') {
    zlib.deflate(Buffer.alloc(200000, text), () => {});
    crypto.pbkdf2('p', 's', 2000, 32, 'sha512', () => {});
  }
  if (Date.now() < stop) setImmediate(again);
})();
