'use strict';
// Right answer: three servers of one worker thread each, whose time is in renderList, priceOrder (the worker) and
// node's HTTP code; a short child every SECONDS_CHILD seconds in importRows. One server is the parent, which also
// sends RATE requests a second and replaces one of the others every SECONDS_DEPLOYED seconds; the old one ends when
// the new one answers. Every 400 requests a server replaces its worker.
//
// For benches/soak: as busy as RATE makes it, for hours, with processes, workers and scripts that come and go.

const { fork } = require('child_process');
const http = require('http');
const { Worker, isMainThread, parentPort } = require('worker_threads');

const rate = Number(process.env.RATE || 40);
const deployed = Number(process.env.SECONDS_DEPLOYED || 20) * 1000;
const children = Number(process.env.SECONDS_CHILD || 3) * 1000;

function renderList(seed) {
  const rows = Array.from({ length: 300 }, (_, i) => ({ id: i, price: (i * seed) % 997, name: `row ${i}` }));
  rows.sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1));
  return rows.map((row) => `<li>${row.id} ${row.name.replace(/o/g, '0')} ${row.price.toFixed(2)}</li>`).join('');
}

function priceOrder(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 300000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function importRows(ms) {
  const stop = Date.now() + ms;
  let rows = 0;
  while (Date.now() < stop) rows += JSON.parse(JSON.stringify({ list: Array.from({ length: 500 }, (_, i) => i) })).list.length;
  return rows;
}

function serve(ready) {
  let worker = new Worker(__filename);
  let asked = 0;
  const server = http.createServer((request, response) => {
    asked += 1;
    if (asked % 4 === 0) worker.postMessage(asked);
    // A pool that replaces its workers, and a template that is compiled anew.
    if (asked % 400 === 0) {
      worker.terminate();
      worker = new Worker(__filename);
    }
    const template = asked % 200 === 0 ? new Function('list', `return function template() { return list + ${asked}; }()`) : (list) => list;
    response.end(template(renderList(asked)));
  });
  server.listen(0, '127.0.0.1', () => ready(server.address().port));
}

function supervise() {
  const servers = [];
  let answered = 0;
  let failed = 0;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  const deploy = () => {
    const child = fork(__filename, ['server']);
    child.on('message', ({ port }) => {
      servers.push({ child, port });
      if (servers.length === 2) console.log('ready');
      if (servers.length > 2) servers.shift().child.disconnect();
    });
  };
  const ask = () => {
    if (servers.length === 0) return;
    const all = servers.map((server) => server.port).concat(own);
    const port = all[(answered + failed) % all.length];
    http
      .get({ host: '127.0.0.1', port, agent }, (response) => {
        response.resume();
        response.on('end', () => { answered += 1; });
      })
      .on('error', () => { failed += 1; });
  };
  let own = [];
  serve((port) => { own = [port]; });
  deploy();
  deploy();
  setInterval(deploy, deployed);
  setInterval(ask, 1000 / rate);
  setInterval(() => fork(__filename, ['import']), children);
  const end = () => {
    console.log(`${answered} answered, ${failed} failed`);
    process.exit();
  };
  process.on('SIGTERM', end);
  setTimeout(end, Number(process.env.MS || 300000));
}

if (!isMainThread) parentPort.on('message', priceOrder);
else if (process.argv[2] === 'server') {
  serve((port) => process.send({ port }));
  process.on('disconnect', () => process.exit());
} else if (process.argv[2] === 'import') {
  importRows(60);
  process.disconnect();
} else supervise();
