'use strict';
// Right answer: a parent that waits, and one short-lived child after another whose CPU time is in
// shortLived, once it has started. A child does a fixed amount of work, some 300 ms of CPU.

const { spawn } = require('child_process');

function shortLived(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

// One call site for two functions, so V8 inlines neither: inlined code has no name in a perf map.
function rest(seed) { return seed + 1 | 0; }

if (process.argv[2] === 'child') {
  const jobs = [shortLived, rest];
  let result = 0;
  for (let i = 0; i < 400; i++) result ^= jobs[i % 2](result);
  process.exitCode = result === 1 ? 1 : 0;
} else {
  const stop = Date.now() + Number(process.env.MS || 300000);
  console.log('ready');
  (function again() {
    const child = spawn(process.execPath, [...process.execArgv, __filename, 'child'], { stdio: 'ignore' });
    child.on('exit', () => { if (Date.now() < stop) setTimeout(again, 200); });
  })();
}
