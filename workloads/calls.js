'use strict';
// Right answer: statIt alone calls uv_fs_stat, openIt alone the system call openat; compute calls
// nothing and takes most of the CPU.

const fs = require('fs');

function statIt() {
  return fs.statSync(__filename).size;
}

function openIt() {
  fs.closeSync(fs.openSync(__filename));
}

function compute() {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += i;
  return sum;
}

setTimeout(() => console.log('ready'), 10);
setInterval(() => {
  compute();
  statIt();
  openIt();
}, 5);
