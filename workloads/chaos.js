'use strict';
// Right answer: a third of the time in busy, the rest idle. Serves HTTP on the unix socket SOCKET; the paths below
// are what happens to programs on a bad day. Runs on Node 16 to 26, `/exec` on 24 and later.

const { spawn } = require('child_process');
const fs = require('fs');
const http = require('http');
const { Worker, isMainThread } = require('worker_threads');

function busy(ms) {
  const end = Date.now() + ms;
  let turns = 0;
  while (Date.now() < end) turns += 1;
  return turns;
}

function storm(left) {
  for (let i = 0; i < 10; i++) spawn('true', { stdio: 'ignore' }).on('error', () => {});
  if (left > 1) setTimeout(storm, 20, left - 1);
}

// Each page is written, so that the kernel has to give it.
const eaten = [];
function eat() {
  eaten.push(Buffer.alloc(8 << 20, 1));
  setTimeout(eat, 5);
}

function startWorkers() {
  for (let i = 0; i < 4; i++) new Worker(__filename, { argv: ['short'] });
}

const paths = {
  '/': () => {},
  '/storm': () => storm(10),
  '/eat': eat,
  '/workers': startWorkers,
  '/children': () => {
    for (let i = 0; i < 500; i++) spawn('sleep', ['4'], { stdio: 'ignore' }).on('error', () => {});
  },
  // The same program in the same process, from its start.
  '/exec': () => process.execve(process.execPath, [process.execPath, ...process.execArgv, ...process.argv.slice(1)], process.env),
};

if (isMainThread) {
  fs.rmSync(process.env.SOCKET, { force: true });
  http
    .createServer((request, response) => {
      response.setHeader('connection', 'close');
      response.end('pong');
      if (request.url !== '/') setTimeout(paths[request.url], 1);
    })
    // The pool's threads start with its first job; later they would look like a change.
    .listen(process.env.SOCKET, () => fs.stat(__filename, () => console.log('ready')));
  setInterval(busy, 12, 4);
  setTimeout(() => process.exit(), Number(process.env.MS || 300000));
} else {
  busy(100);
}
