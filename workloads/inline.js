'use strict';
// Right answer: hotCaller calls mix, mix calls scramble, and nearly all CPU time is in the three, about
// two thirds of it in scramble and a third in mix. V8 inlines both into hotCaller: a profiler that can't
// see inlined functions blames hotCaller for everything. Each has a loop of its own, so that a sample one
// instruction off is still in the function it was taken in.

require('./truth').start();

function scramble(h) {
  for (let round = 0; round < 40; round++) {
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  }
  return h ^ (h >>> 16);
}

function mix(h, i) {
  for (let round = 0; round < 20; round++) {
    h = Math.imul(h ^ (h >>> 11), 0x27d4eb2f);
    h = Math.imul(h ^ (h >>> 15), 0x2545f491);
  }
  return scramble(h ^ i);
}

function hotCaller(n) {
  let h = n | 0;
  for (let i = 0; i < 3000; i++) h = mix(h, i);
  return h;
}

// One call site for two functions, so that hotCaller itself is not inlined.
const calls = [hotCaller, (n) => n + 1 | 0];
let result = 0;
function turn() {
  for (let i = 0; i < 10; i++) result ^= calls[i & 1](result);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 100; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
