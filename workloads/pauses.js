'use strict';
// Right answer: V8's own. Idle for six seconds, then a hundred rounds of litter, some of it kept for a while, then the end.
// The garbage collections meanwhile, by kind as perf_hooks reports them, go to the file in OUT: for each kind
// the milliseconds of each.

const fs = require('fs');
const { PerformanceObserver, constants } = require('perf_hooks');

const kinds = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'scavenge',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'mark-compact',
};
const seen = { scavenge: [], 'mark-compact': [] };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const of = seen[kinds[entry.detail ? entry.detail.kind : entry.kind]];
    if (of) of.push(entry.duration);
  }
}).observe({ entryTypes: ['gc'] });

let kept = [];
function litter() {
  for (let i = 0; i < 20000; i++) kept.push({ i, pair: [i, i] });
  if (kept.length > 600000) kept = [];
}

function work(rounds) {
  litter();
  if (rounds > 1) return setTimeout(work, 2, rounds - 1);
  setTimeout(() => {
    fs.writeFileSync(process.env.OUT, JSON.stringify(seen));
    process.exit();
  }, 200);
}

setTimeout(() => {
  seen.scavenge = [];
  seen['mark-compact'] = [];
  work(100);
}, 6000);
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
console.log('ready');
