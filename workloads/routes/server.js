'use strict';
// Right answer: each function that computes is named after the only route it works for: items_map works for /items, and so on.
// The same six routes on every framework: node server.js express|fastify|koa|http|http-rendered|http2|http2-streams. Listens
// on the loopback only; prints `ready PORT`.

const fs = require('fs');
const framework = process.argv[2] || 'express';

// Computes for a fraction of a millisecond.
function compute(seed) {
  let hash = seed | 0;
  for (let turn = 0; turn < 60_000; turn++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + turn | 0;
  return hash;
}

// A driver with callbacks inside and promises outside, which answers several queries at once.
let waiting = [];
function query(name) {
  return new Promise((resolve) => {
    waiting.push(() => resolve([{ id: 1, name }]));
    if (waiting.length > 1) return;
    setTimeout(() => {
      const answers = waiting;
      waiting = [];
      for (const answer of answers) answer();
    }, 1);
  });
}

async function items_load(id) { const rows = await query(`item ${id}`); items_map(rows); return rows; }
function items_map(rows) { return compute(rows.length); }
function items_render(rows) { return { rows, sum: compute(rows.length) }; }
async function items(id) {
  const [first] = await Promise.all([items_load(id), items_load(id + 1)]);
  return items_render(first);
}

async function* report_rows() {
  for (let row = 0; row < 3; row++) {
    await query(`row ${row}`);
    report_row(row);
    yield row;
  }
}
function report_row(row) { return compute(row); }
async function report() {
  let sum = 0;
  for await (const row of report_rows()) sum += row;
  return sum;
}

function orders_store() { return compute(3); }
async function orders() {
  await query('order');
  return new Promise((resolve) => setImmediate(function stored() { orders_store(); resolve('stored'); }));
}

function search_all(text) { return compute(text.length); }
function search(text) { return search_all(text); }

function files_parse(text) { return compute(text.length); }
function files() {
  return fs.promises.readFile(__filename, 'utf8').then((text) => text.trim()).then(function parse(text) { return files_parse(text); });
}

function health_check() { return compute(7); }
async function health() {
  await null;
  health_check();
  return 'well';
}

const routes = [
  ['get', '/items/:id', ({ id }) => items(Number(id))],
  ['get', '/report/:year', () => report()],
  ['post', '/orders/:id', () => orders()],
  ['get', '/search/:text', ({ text }) => search(text)],
  ['get', '/files/:name', () => files()],
  ['get', '/health', () => health()],
];

function listening(server) {
  console.log(`ready ${server.address().port}`);
}

// What each framework makes of the routes.
const start = {
  express() {
    const express = require('express');
    const router = express.Router();
    for (const [method, path, work] of routes) {
      router[method](path, async function handler(request, response, next) {
        try { response.json({ out: await work(request.params) }); } catch (error) { next(error); }
      });
    }
    const app = express();
    app.use('/shop', router);
    const server = app.listen(0, '127.0.0.1', () => listening(server));
  },
  fastify() {
    const app = require('fastify')();
    for (const [method, path, work] of routes) {
      app[method](`/shop${path}`, async function handler(request) { return { out: await work(request.params) }; });
    }
    app.listen({ port: 0, host: '127.0.0.1' }).then(() => listening(app.server));
  },
  koa() {
    const Koa = require('koa');
    const Router = require('@koa/router');
    const router = new Router({ prefix: '/shop' });
    for (const [method, path, work] of routes) {
      router[method](path, async function handler(context) { context.body = { out: await work(context.params) }; });
    }
    const app = new Koa();
    app.use(async function timed(context, next) { await next(); context.set('x-served', 'yes'); });
    app.use(router.routes());
    const server = app.listen(0, '127.0.0.1', () => listening(server));
  },
  http() { bare(require('http')); },
  // As React and Next do it: who computes has no request, and was queued by others.
  'http-rendered'() {
    const server = require('http').createServer(function listener(request, response) {
      const [, , first] = request.url.split('/');
      rendered[first](request, response);
    });
    server.listen(0, '127.0.0.1', () => listening(server));
  },
  http2() { bare(require('http2')); },
  // The core API, which has no request and no response.
  'http2-streams'() {
    const server = require('http2').createServer();
    server.on('stream', async function handle(stream, headers) {
      const out = await routed(headers[':path']);
      stream.respond({ ':status': 200 });
      stream.end(JSON.stringify({ out }));
    });
    server.listen(0, '127.0.0.1', () => listening(server));
  },
};

// What React keeps of a rendering, and how it goes on.
class Rendering {
  constructor(model, onError, onAllReady) {
    this.type = 20;
    this.status = 10;
    this.abortableTasks = new Set();
    this.pingedTasks = [model];
    this.onError = onError;
    this.onAllReady = onAllReady;
  }
}
function performWork(rendering) {
  const tasks = rendering.pingedTasks;
  rendering.pingedTasks = [];
  for (const task of tasks) {
    const out = task();
    if (typeof out.then === 'function') out.then(function ping(value) { ended(rendering, value); }, rendering.onError);
    else ended(rendering, out);
  }
}
function ended(rendering, out) { setImmediate(rendering.onAllReady, out); }
function render(model, onError, onAllReady) {
  const rendering = new Rendering(model, onError, onAllReady);
  queueMicrotask(() => performWork(rendering));
}
function errorHandler(isQuiet, report) { return function onError(error) { if (!isQuiet) report(error); }; }
function answer(response) { return function ready(out) { response.end(JSON.stringify({ out })); }; }

async function orders_saved() { await null; return orders_store(); }
// Waits for what it returns from a microtask on, and by then that has computed.
async function saved() { return orders_saved().finally(() => {}); }

const rendered = {
  items(request, response) {
    const onError = errorHandler(false, (error) => console.error(request.url, error));
    render(function () { return items_render([items_map([1])]); }, onError, answer(response));
  },
  report(request, response) {
    const onError = errorHandler(false, (error) => console.error(request.url, error));
    render(report, onError, answer(response));
  },
  async orders(request, response) { answer(response)(await saved()); },
  search(request, response) {
    // From now on V8 has its properties in a dictionary.
    delete request.rawTrailers;
    answer(response)(search(request.url));
  },
  files(request, response) { files().then((out) => response.end(JSON.stringify({ out }))); },
  async health(request, response) { delete request.rawTrailers; answer(response)(await health()); },
};

// What the router of a framework does.
function routed(url) {
  const [, , first, rest] = url.split('?')[0].split('/');
  const [, , work] = routes.find(([, path]) => path.split('/')[1] === first);
  return work({ id: rest, text: rest });
}

function bare(module) {
  const server = module.createServer((request, response) => {
    (async function handle() {
      response.end(JSON.stringify({ out: await routed(request.url) }));
    })();
  });
  server.listen(0, '127.0.0.1', () => listening(server));
}
start[framework]();
