'use strict';
// Right answer: the event loop is idle, and these async functions are pending, innermost first: three times queryDatabase and
// handler; produce and consume (`for await`); twice part and both (`Promise.all`); first and second, which await one another.
// Each awaits in the line with its name in a comment. With `none` as an argument nothing is pending: what was has ended, and
// only a timer keeps the process alive. With `worker` the same happens in a worker.

const { Worker, isMainThread } = require('worker_threads');

const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const never = () => new Promise(() => {});
const kept = [];

async function queryDatabase() {
  await later(1);
  const result = never();
  kept.push(result);
  await result; // queryDatabase
}

async function handler() {
  await queryDatabase(); // handler
}

async function* produce() {
  yield 1;
  await later(1e9); // produce
}

async function consume() {
  for await (const one of produce()) kept.push(one); // consume
}

async function part() {
  await later(1e9); // part
}

async function both() {
  await Promise.all([later(1), part(), part()]); // both
}

async function first() {
  await later(1);
  await circle.second; // first
}

async function second() {
  await later(1);
  await circle.first; // second
}

const circle = {};

async function ends(depth) {
  await later(1);
  if (depth > 0) await ends(depth - 1);
}

function start() {
  for (let number = 0; number < 3; number++) kept.push(handler());
  kept.push(consume(), both());
  circle.first = first();
  circle.second = second();
}

const settings = process.argv.slice(2);
if (isMainThread && settings.includes('worker')) {
  new Worker(__filename, { argv: [] });
} else {
  if (!settings.includes('none')) start();
  // What has ended is not pending, whether it was collected or not.
  const ended = Array.from({ length: 50 }, () => ends(3));
  Promise.all(ended).then(() => console.log('ready'));
  setInterval(() => kept, 1e9);
}
