'use strict';
// Right answer: nearly all page faults happen in growBuffers, which fills memory that was never
// touched; quiet computes and touches nothing new. How many there were in growBuffers by the kernel's own
// account is written to the file in OUT after CALLS calls, which end the program.

const fs = require('fs');

const MIB = 1 << 20;

function growBuffers() {
  return Buffer.alloc(8 * MIB, 1)[0];
}

function quiet() {
  let sum = 0;
  for (let i = 0; i < 1e6; i++) sum += i;
  return sum;
}

let calls = 0;
let faults = 0;

setTimeout(() => console.log('ready'), 10);
setInterval(() => {
  const before = process.resourceUsage().minorPageFault;
  growBuffers();
  faults += process.resourceUsage().minorPageFault - before;
  quiet();
  if (++calls !== Number(process.env.CALLS)) return;
  fs.writeFileSync(process.env.OUT, JSON.stringify({ calls, faults }));
  process.exit();
}, 20);
