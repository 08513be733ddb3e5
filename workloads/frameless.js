'use strict';
// Right answer: nearly all CPU time is in `inner`, which calls Math.imul in a loop; `outer` only calls
// inner. inner is of another context, so V8 does not inline Math.imul into it: it calls the builtin, which
// makes no frame of its own. A profiler that goes by frames alone takes inner's frame for the builtin's and
// blames outer.

require('./truth').start();

const vm = require('vm');

const inner = vm.runInContext('(function inner(n) {'
  + ' const { imul } = Math; let h = n | 0; for (let i = 0; i < 60000; i++) h = imul(h ^ (h >>> 15), 0x2c1b3c6d) + i | 0; return h; })',
vm.createContext({ Math }), { filename: 'inner.js' });

// One call site for two functions, so that neither is inlined.
const calls = [inner, (n) => n + 1 | 0];
let result = 0;
function outer() {
  for (let i = 0; i < 10; i++) result ^= calls[i & 1](result);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 50; i++) outer();
console.log('ready');

(function again() {
  outer();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
