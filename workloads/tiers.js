'use strict';
// Right answer: nearly all of the time is in `mix`. With WHAT=interpreted V8 may not compile it. With
// WHAT=deoptimized it loses its optimized code again and again, and is without for at least three quarters of
// its time; more than half of that is in builtins that it calls then. Else it is optimized once and stays so.

const v8 = require('v8');

const what = process.env.WHAT || 'optimized';
if (what === 'interpreted') {
  for (const flag of ['--no-opt', '--no-sparkplug']) v8.setFlagsFromString(flag);
  if (Number(process.versions.v8.split('.')[0]) > 11) v8.setFlagsFromString('--no-maglev');
}
v8.setFlagsFromString('--allow-natives-syntax');
const isOptimized = new Function('f', 'return (%GetOptimizationStatus(f) & 16) !== 0');
const deoptimize = new Function('f', '%DeoptimizeFunction(f)');
const keepApart = new Function('f', '%NeverOptimizeFunction(f)');

// Without a loop: in one, V8 would go on with optimized code of its own for loops.
function mix(seed) {
  let hash = seed | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 0 | 0;
  hash = Math.imul(hash ^ (hash >>> 14), 0x2c1b3c6d) + 1 | 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d) + 2 | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 3 | 0;
  hash = Math.imul(hash ^ (hash >>> 14), 0x2c1b3c6d) + 4 | 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d) + 5 | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 6 | 0;
  hash = Math.imul(hash ^ (hash >>> 14), 0x2c1b3c6d) + 7 | 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d) + 8 | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 9 | 0;
  hash = Math.imul(hash ^ (hash >>> 14), 0x2c1b3c6d) + 10 | 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d) + 11 | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 12 | 0;
  hash = Math.imul(hash ^ (hash >>> 14), 0x2c1b3c6d) + 13 | 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0x2c1b3c6d) + 14 | 0;
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 15 | 0;
  return hash;
}

let result = 0;
function many() {
  for (let i = 0; i < 2000; i++) result = mix(result);
}
// Nothing is inlined into a function that is not optimized.
keepApart(many);

// Milliseconds on a CPU: how long the program waits for one is no matter.
const ran = () => process.cpuUsage().user / 1000;

// In turns: no optimized code for 30 ms, taken away whenever there is some, then some for 10 ms, from when V8 has
// made it.
const turn = () => (mayHave ? 10 : 30);
let mayHave = false;
let since = ran();
function round() {
  many();
  if (what !== 'deoptimized') return;
  const has = isOptimized(mix);
  if (mayHave && !has) since = ran();
  if (!mayHave && has) deoptimize(mix);
  if (ran() - since < turn()) return;
  mayHave = !mayHave;
  since = ran();
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 100; i++) round();
console.log('ready', result);
(function again() {
  for (let i = 0; i < 200; i++) round();
  if (Date.now() < stop) setImmediate(again);
})();
