'use strict';
// Blocks its thread inside a continuation, or a callback that is to resolve what is awaited, in the way that the first argument names, so that who awaits whom is known:
// `node await_kinds.js all`. Prints "ready" and those who await the blocked function, innermost first.

const gate = new Int32Array(new SharedArrayBuffer(4));
const later = () => new Promise((resolve) => setTimeout(resolve, 5));
const never = () => new Promise(() => {});

function block() {
  console.log(`ready ${kinds[kind].callers.join(' ')}`);
  Atomics.wait(gate, 0, 0);
}

async function inner() {
  await later();
  block();
}

// What TypeScript makes of async functions for engines without them.
function drive(generator) {
  return new Promise((resolve, reject) => {
    const next = (value) => {
      try {
        step(generator.next(value));
      } catch (error) {
        reject(error);
      }
    };
    const step = (result) => (result.done ? resolve(result.value) : Promise.resolve(result.value).then(next));
    step(generator.next());
  });
}

const kinds = {
  await: { callers: ['middle', 'outer'], async outer() { await this.middle(); }, async middle() { await inner(); } },
  all: { callers: ['outer'], async outer() { await Promise.all([later(), inner()]); } },
  allSettled: { callers: ['outer'], async outer() { await Promise.allSettled([inner(), later()]); } },
  any: { callers: ['outer'], async outer() { await Promise.any([inner(), never()]); } },
  race: { callers: ['outer'], async outer() { await Promise.race([inner(), never()]); } },
  then: { callers: ['outer'], async outer() { await later().then(function callback() { block(); }); } },
  thenChain: {
    callers: ['second', 'outer'],
    async outer() { await later().then(function first() { block(); }).then(function second() {}).catch(() => {}).finally(() => {}); },
  },
  catch: { callers: ['outer'], async outer() { await Promise.reject(new Error('expected')).catch(function caught() { block(); }); } },
  finally: { callers: ['outer'], async outer() { await later().finally(function last() { block(); }); } },
  returned: { callers: ['outer'], async outer() { await this.passes(); }, async passes() { return inner(); } },
  rejected: {
    callers: ['outer'],
    async outer() { await this.fails(); },
    async fails() {
      try {
        await later().then(() => { throw new Error('expected'); });
      } catch {
        block();
      }
    },
  },
  generator: {
    callers: ['outer'],
    async outer() { for await (const value of this.values()) return value; },
    async *values() { await later(); block(); yield 1; },
  },
  awaitInGenerator: {
    callers: ['values', 'outer'],
    async outer() { for await (const value of this.values()) return value; },
    async *values() { await inner(); yield 1; },
  },
  yieldedPromise: {
    callers: ['values', 'outer'],
    async outer() { for await (const value of this.values()) return value; },
    async *values() { yield inner(); },
  },
  arrayOfPromises: { callers: ['outer'], async outer() { for await (const value of [inner()]) return value; } },
  thenable: { callers: ['outer'], async outer() { await { then(resolve, reject) { inner().then(resolve, reject); } }; } },
  newPromise: { callers: ['outer'], async outer() { await new Promise((resolve, reject) => { inner().then(resolve, reject); }); } },
  subclass: { callers: ['pass', 'outer'], async outer() { await (class Own extends Promise {}).resolve(inner()).then(function pass() {}); } },
  awaitedLater: {
    callers: ['outer'],
    async outer() { const promise = inner(); await Promise.resolve(); await promise; },
  },
  siblings: {
    callers: ['other', 'outer'],
    async outer() { const promise = inner(); this.first(promise); await this.other(promise); },
    async first(promise) { await promise; },
    async other(promise) { await promise; },
  },
  timer: { callers: ['outer'], async outer() { await new Promise((resolve) => setTimeout(function timed() { block(); resolve(); }, 5)); } },
  immediate: { callers: ['outer'], async outer() { await new Promise((resolve) => setImmediate(function soon() { block(); resolve(); })); } },
  nextTick: { callers: ['outer'], async outer() { await new Promise((resolve) => process.nextTick(function next() { block(); resolve(); })); } },
  queueMicrotask: { callers: ['outer'], async outer() { await new Promise((resolve) => queueMicrotask(function task() { block(); resolve(); })); } },
  socket: {
    callers: ['ask', 'outer'],
    async outer() { await this.ask(); },
    async ask() {
      const { createServer, connect } = require('net');
      const server = createServer((socket) => socket.end('answer')).listen(0, '127.0.0.1');
      await new Promise((resolve) => server.on('listening', resolve));
      await new Promise((resolve) => connect(server.address().port, '127.0.0.1').on('data', function answered(text) { block(); resolve(text); }));
    },
  },
  driven: {
    callers: ['driven', 'outer'],
    async outer() { await drive(this.driven()); },
    *driven() { yield inner(); },
  },
};

const kind = process.argv[2] || 'await';
if (kind === 'list') console.log(Object.keys(kinds).join(' '));
else kinds[kind].outer();
