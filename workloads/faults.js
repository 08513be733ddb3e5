'use strict';
// Right answer: nearly all page faults happen in growBuffers, which fills memory that was never
// touched; quiet computes and touches nothing new.

const MIB = 1 << 20;

function growBuffers() {
  return Buffer.alloc(8 * MIB, 1)[0];
}

function quiet() {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += i;
  return sum;
}

setTimeout(() => console.log('ready'), 10);
setInterval(() => {
  growBuffers();
  quiet();
}, 20);
