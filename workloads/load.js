'use strict';
// A bounded load for server.js and express/app.js, on the loopback only:
//
//   node load.js PORT [SECONDS 10] [REQUESTS 100000] [CONNECTIONS 8]
//
// Ends at whichever limit comes first and prints how many requests were answered and how many failed.
// The first line, `ready`, comes when a hundred requests have been answered.

const http = require('http');

const [port, seconds, requests, connections] = [2, 3, 4, 5].map((at, i) => Number(process.argv[at] || [0, 10, 100000, 8][i]));
const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
const paths = ['/json', '/page', '/login', '/json', '/page', '/missing'];
const stop = Date.now() + seconds * 1000;

let started = 0;
let answered = 0;
let failed = 0;
let running = 0;

function next() {
  if (Date.now() >= stop || started >= requests || failed > 100) {
    if (running === 0) {
      agent.destroy();
      console.log(`${answered} answered, ${failed} failed`);
      process.exitCode = answered > 0 && failed === 0 ? 0 : 1;
      running = -1;
    }
    return;
  }
  running++;
  const path = paths[started++ % paths.length];
  const over = (good) => {
    running--;
    if (good) { if (++answered === 100) console.log('ready'); } else failed++;
    next();
  };
  http.get({ host: '127.0.0.1', port, path, agent }, (response) => {
    response.resume();
    response.on('end', () => over(true));
  }).on('error', () => over(false));
}

for (let i = 0; i < connections; i++) next();
