'use strict';
// Right answer: nearly all CPU time is in `weigh`. Of its time, the line marked HOT has by far the most
// in every tier; the lines marked COLD have little each. Its caller is at the line marked CALL.

function weigh(n) {
  let h = n | 0;
  for (let i = 0; i < 500; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) + i | 0; // COLD
  for (let i = 0; i < 20000; i++) {
    h = h + 1 | 0; // COLD
    h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) / 3 + Math.imul(h ^ (h >>> 13), 0x297a2d39) / 5 + Math.imul(h ^ (h >>> 11), 0x1b56c4e9) / 7 + Math.imul(h ^ (h >>> 9), 0x2c1b3c6f) / 9 | 0; // HOT
    h = h ^ 1; // COLD
  }
  for (let i = 0; i < 500; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) + i | 0; // COLD
  return h;
}

let result = 0;
function turn() {
  for (let i = 0; i < 10; i++) {
    result ^= result << 1;
    result ^= calls[i & 1](result); // CALL
  }
}
const calls = [weigh, (n) => n + 1 | 0];

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 20; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
