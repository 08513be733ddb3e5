'use strict';
// Right answer: four processes. The three workers have about equal shares, all in answerRequests;
// the primary waits. With PRIMARY=busy it is in superviseWorkers all the time.

const cluster = require('cluster');

function answerRequests(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function superviseWorkers(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 400000; i++) hash = Math.imul(hash ^ (hash >>> 13), 0x297a2d39) ^ i;
  return hash;
}

// One call site for two functions, so V8 inlines neither: inlined code has no name in a perf map.
function rest(seed) { return seed + 1 | 0; }

let result = 0;
function turn(jobs) {
  for (let i = 0; i < jobs.length; i++) result ^= jobs[i](result);
}

const stop = Date.now() + Number(process.env.MS || 300000);

if (cluster.isMaster) {
  let warm = 0;
  cluster.on('message', () => { if (++warm === 3) console.log('ready'); });
  for (let i = 0; i < 3; i++) cluster.fork();
  const jobs = [superviseWorkers, rest];
  const busy = () => { turn(jobs); setImmediate(busy); };
  if (process.env.PRIMARY === 'busy') busy();
} else {
  const jobs = [answerRequests, rest];
  for (let i = 0; i < 200; i++) turn(jobs);
  process.send('warm');
  // A worker whose primary was killed has nobody to answer for.
  process.on('disconnect', () => process.exit());
  (function again() {
    turn(jobs);
    if (Date.now() < stop) setImmediate(again);
    else process.disconnect();
  })();
}
