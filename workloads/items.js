'use strict';
// Right answer: all CPU time is in the functions under item, some 40 frames deep, about half of it in
// sorting and half in plain arithmetic.
//
// Reads numbers from standard input, one a line; does that many items (about 0.7 ms each) and
// answers with one JSON line: the items done and the CPU time the process took for them. Ends when
// its input ends.

const readline = require('readline');

const numbers = Array.from({ length: 1500 }, (_, i) => (i * 7919) % 9973);

function sortNumbers() {
  return numbers.slice().sort((a, b) => a - b)[0];
}

function mixNumbers(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 150000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function descend(level, seed) {
  if (level === 0) return sortNumbers() ^ mixNumbers(seed);
  return descend(level - 1, seed) + 1 | 0;
}

let result = 0;
function item() {
  result ^= descend(40, result);
}

for (let i = 0; i < 500; i++) item();
console.log('ready');

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const items = Number(line);
  const before = process.cpuUsage();
  for (let i = 0; i < items; i++) item();
  const used = process.cpuUsage(before);
  console.log(JSON.stringify({ items, cpu_microseconds: used.user + used.system }));
});
