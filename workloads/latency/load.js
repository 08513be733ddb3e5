'use strict';
// Keeps 32 requests under way for SECONDS, then prints how many were answered and how long they took.

const http = require('http');

const [url, seconds] = [process.argv[2], Number(process.argv[3] || 10)];
const agent = new http.Agent({ keepAlive: true });
const stop = Date.now() + seconds * 1000;
const times = [];

function ask() {
  if (Date.now() >= stop) return;
  const start = process.hrtime.bigint();
  http.get(url, { agent }, (response) => {
    response.resume();
    response.on('end', () => {
      if (response.statusCode === 200) times.push(Number(process.hrtime.bigint() - start) / 1e6);
      ask();
    });
  }).on('error', ask);
}

process.on('exit', () => {
  times.sort((one, other) => one - other);
  const at = (part) => (times[Math.floor(times.length * part)] || 0).toFixed(0);
  console.log(`${(times.length / seconds).toFixed(0)} requests/s, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`);
});
for (let i = 0; i < 32; i++) ask();
setTimeout(() => process.exit(), seconds * 1000 + 100);
