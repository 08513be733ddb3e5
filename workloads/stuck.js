'use strict';
// Right answer: the main thread never leaves the loop of spinForever, called by handleRequest; the
// line it is at is one of the three marked ones. A dump names both, by name and line.

const stop = Date.now() + Number(process.env.MS || 300000);

function spinForever(seed) {
  let hash = seed | 0;
  for (;;) { // loop
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 1 | 0; // loop
    if ((hash & 0xffffff) === 0 && Date.now() > stop) return hash; // loop
  }
}

function handleRequest() {
  return spinForever(1) + 1; // caller
}

setTimeout(() => {
  console.log('ready');
  // After the line is out, so that whoever waits for it finds the loop already running.
  setTimeout(() => { handleRequest(); process.exit(); }, 1);
}, 10);
