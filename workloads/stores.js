'use strict';
// Right answer: each function that computes is named after the only tenant it works for: acme_sync computes in a store with the tenant acme.
// What runs with no store is called none_*. The stores of WHAT: object (the default) has an object, map a Map, number a number.
// Prints `ready`.
const { AsyncLocalStorage } = require('async_hooks');
const fs = require('fs');
const http = require('http');
const net = require('net');

const what = process.env.WHAT || 'object';
const stop = Date.now() + Number(process.env.MS || 300_000);
const requests = new AsyncLocalStorage();
const others = new AsyncLocalStorage();

// Computes for a fraction of a millisecond.
function compute(seed) {
  let hash = seed | 0;
  for (let turn = 0; turn < 60_000; turn++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + turn | 0;
  return hash;
}

const tick = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// One set of functions for each tenant, so that a name says which it is for.
function functionsOf(name) {
  return new Function('compute', 'tick', 'fs', 'connect', `
    function ${name}_sync() { return compute(1); }
    function ${name}_awaited() { return compute(2); }
    function ${name}_then() { return compute(3); }
    function ${name}_timer() { return compute(4); }
    function ${name}_immediate() { return compute(6); }
    function ${name}_callback() { return compute(7); }
    function ${name}_socket() { return compute(8); }
    function ${name}_request() { return compute(9); }
    let socket;
    async function inner() { await tick(1); ${name}_awaited(); await null; ${name}_awaited(); }
    async function handle() {
      ${name}_sync();
      await Promise.all([inner(), inner()]);
      ${name}_awaited();
      await fs.promises.stat(__filename).then(() => ${name}_then());
      await new Promise((resolve) => setTimeout(() => { ${name}_timer(); resolve(); }, 1));
      await new Promise((resolve) => setImmediate(() => { ${name}_immediate(); resolve(); }));
      await new Promise((resolve) => fs.stat(__filename, () => { ${name}_callback(); resolve(); }));
      socket = socket || connect().on('data', () => ${name}_socket());
      socket.write('x');
    }
    return { handle, request: ${name}_request };
  `.replaceAll('__filename', JSON.stringify(__filename)))(compute, tick, fs, connect);
}

const tenants = ['acme', 'globex', 'initech', 'umbrella'];
const functions = tenants.map(functionsOf);

function store(position, turn) {
  const tenant = what === 'number' ? position : tenants[position];
  if (what === 'map') return new Map([['turn', turn], ['tenant', tenant]]);
  return { turn, tenant, user: `user ${turn}` };
}

function none_between() { return compute(5); }

async function serve(position) {
  for (let turn = 0; Date.now() < stop; turn++) {
    const handle = () => requests.run(store(position, turn), functions[position].handle);
    await (turn % 2 ? others.run({ turn }, handle) : handle());
    none_between();
    await ask(position);
  }
}

// Sends back what sockets write.
const echo = net.createServer((connection) => connection.pipe(connection));
function connect() { return net.connect(echo.address().port, '127.0.0.1').setNoDelay(true); }

// Serves each request in a store of its own.
const server = http.createServer((request, response) => {
  const position = Number(request.url.slice(1));
  requests.run(store(position, 0), () => response.end(String(functions[position].request())));
});
const agent = new http.Agent({ keepAlive: true });
function ask(position) {
  const where = { port: server.address().port, host: '127.0.0.1', path: `/${position}`, agent };
  return new Promise((resolve) => http.get(where, (response) => response.resume().on('end', resolve)));
}

server.listen(0, '127.0.0.1', () => echo.listen(0, '127.0.0.1', () => {
  tenants.forEach((_, position) => serve(position).then(() => process.exit()));
  console.log('ready');
}));
