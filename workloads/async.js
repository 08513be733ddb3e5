'use strict';
// Right answer: `compute` has most of the CPU time; it is always called by `level`, an async function
// that awaits itself ten deep and goes on in microtasks, and sometimes within a for-await loop
// (`consume`) over an async generator (`produce`).

require('./truth').start();

function compute(n) {
  let h = n | 0;
  for (let i = 0; i < 3000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) + i | 0;
  return h;
}

async function level(depth, n) {
  if (depth === 0) return compute(n);
  const before = await level(depth - 1, n + depth);
  try {
    const [one, two] = await Promise.all([before, Promise.resolve(depth).then((value) => value + 1)]);
    return one ^ two ^ compute(one);
  } finally {
    n = before;
  }
}

async function* produce(count) {
  for (let i = 0; i < count; i++) yield level(3, i);
}

async function consume(count) {
  let sum = 0;
  for await (const value of produce(count)) sum ^= value;
  return sum;
}

let result = 0;
async function turn() {
  for (let i = 0; i < 10; i++) result ^= await level(10, result + i);
  result ^= await consume(10);
}

const stop = Date.now() + Number(process.env.MS || 300000);
(async function main() {
  for (let i = 0; i < 50; i++) await turn();
  console.log('ready');
  while (Date.now() < stop) {
    await turn();
    await new Promise(setImmediate);
  }
  console.log('done', result);
})();
