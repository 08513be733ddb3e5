'use strict';
// Right answer: a third of the time of each thread under `listOnTimeout`, the rest idle. Serves HTTP on the unix
// socket SOCKET; MODE and the paths below make it the target that an inspector finds hard. Runs on
// Node 12 to 26.

const { execSync } = require('child_process');
const fs = require('fs');
const http = require('http');
const { Worker, isMainThread } = require('worker_threads');

function spin(ms) {
  const end = Date.now() + ms;
  let turns = 0;
  while (Date.now() < end) turns += 1;
  return turns;
}

function busy() {
  return spin(4);
}

// Until the file SOCKET.stop is there: however slow the machine, the loop outlasts the recording.
function loop() {
  while (!fs.existsSync(`${process.env.SOCKET}.stop`)) spin(50);
}

function startWorker() {
  return new Worker(__filename);
}

const modes = {
  handler: () => process.on('SIGUSR1', () => {}),
  removed: () => {
    const handler = () => {};
    process.on('SIGUSR1', handler);
    process.removeListener('SIGUSR1', handler);
  },
  term: () => process.on('SIGTERM', () => process.exit(3)),
  workers: () => {
    startWorker();
    startWorker();
  },
};

const paths = {
  '/': () => {},
  '/worker': startWorker,
  '/exit': () => process.exit(7),
  '/loop': loop,
  '/exec': () => execSync('sleep 4'),
};

setInterval(busy, 8);
if (isMainThread) {
  if (process.env.MODE) modes[process.env.MODE]();
  http
    .createServer((request, response) => {
      response.end('pong');
      setTimeout(() => paths[request.url](), 50);
    })
    .listen(process.env.SOCKET, () => console.log('ready'));
  setTimeout(() => process.exit(), Number(process.env.MS || 300000));
}
