'use strict';
// Right answer: the functions below and those of names.mjs have about the same share of the CPU time
// each, under the name, file, line and column that V8's own profiler gives them (PROFILE=FILE).
// Every function that JavaScript can name in its own way is there once, and each has a loop of its
// own, so none can be blamed for another.

const path = require('path');
const vm = require('vm');

require('./truth').start();

// Short at first: code that V8 optimizes within its first loop knows nothing of what comes after the
// loop, and would be thrown away every time it gets there.
let rounds = 10;

const turns = [];
const add = (call) => turns.push(call);

function plainFunction(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d) + i | 0; return h; }
add(plainFunction);

const arrowFunction = (n) => { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6f) + i | 0; return h; };
add(arrowFunction);

// No name, not even an inferred one.
add([(n) => { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c71) + i | 0; return h; }][0]);
add((function (n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c73) + i | 0; return h; }));

// A name V8 infers from where the function is put.
const shelf = { deep: {} };
shelf.deep.inferred = function (n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c75) + i | 0; return h; };
add(shelf.deep.inferred);
shelf['computed ' + shelf.constructor.name] = function (n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c77) + i | 0; return h; };
add(shelf['computed Object']);

const key = 'computed' + 'Method';
class Shape {
  #secret = 1;
  constructor(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c79) + i | 0; this.h = h; }
  method(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c7b) + i | 0; return h; }
  static make(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c7d) + i | 0; return h; }
  get area() { let h = this.h | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c7f) + i | 0; return h; }
  set area(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c81) + i | 0; this.h = h; }
  #hidden(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c83) + i | 0; return h + this.#secret | 0; }
  show(n) { return this.#hidden(n); }
  [key](n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c85) + i | 0; return h; }
}
class Square extends Shape {
  method(n) { let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c87) + i | 0; return h; }
}
const shape = new Shape(1);
const square = new Square(2);
add((n) => new Shape(n).h);
add((n) => shape.method(n));
add((n) => Shape.make(n));
add(() => shape.area);
add((n) => { shape.area = n; return shape.h; });
add((n) => shape.show(n));
add((n) => shape[key](n));
add((n) => square.method(n));

function boundTarget(n) { let h = n | this.seed; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c89) + i | 0; return h; }
add(boundTarget.bind({ seed: 1 }));

// These take part in the rounds by going on where they stopped.
let sum = 0;
async function asyncFunction(n) {
  await null;
  let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c8b) + i | 0; sum = h;
}
add((n) => { asyncFunction(n); return 0; });
function* generatorFunction() {
  for (;;) { let h = yield 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c8d) + i | 0; sum ^= h; }
}
const generator = generatorFunction();
generator.next();
add((n) => generator.next(n).value);
async function* asyncGenerator(n) {
  let h = n | 0; for (let i = 0; i < rounds; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c8f) + i | 0; yield h;
}
add((n) => { asyncGenerator(n).next(); return 0; });

// Names outside Latin-1.
function вычислить(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c91) + i | 0; return h; }
add(вычислить);
const words = {
  計算する(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c93) + i | 0; return h; },
  '🚀 launch; now'(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c95) + i | 0; return h; },
  'größe'(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c97) + i | 0; return h; },
};
add((n) => words.計算する(n));
add((n) => words['🚀 launch; now'](n));
add((n) => words.größe(n));

// Code that is made while the program runs.
add(new Function('n', 'let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c99) + i | 0; return h;'));
add(eval('(function evaluated(n) {\n let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c9b) + i | 0; return h; })'));
add(eval('\n\n  (function withSourceUrl(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c9d) + i | 0; return h; })\n//# sourceURL=given-by-source-url.js'));
const burn = 'let h = n | 0; for (let i = 0; i < 60000; i++) h = Math.imul(h ^ (h >>> 15), 0x2c1b3c9f) + i | 0; return h;';
// Functions of another context are not inlined, not even Math.imul: this one does without.
add(vm.runInContext('\n (function inContext(n) { let h = n | 0; for (let i = 0; i < 60000; i++) h = (h ^ (h >>> 15)) * 21 + i | 0; return h; })', vm.createContext({}), { filename: 'in-context.js' }));
add(vm.runInThisContext(`(function offsetScript(n) { ${burn} })`, { filename: 'offset.js', lineOffset: 100, columnOffset: 20 }));
const locals = Array.from({ length: 90 }, (_, i) => `local${i}`);
add(vm.runInThisContext(`(function outer() { let ${locals.map((name, i) => `${name} = ${i}`).join(', ')};
  return function manyLocals(n) { let ${locals.map((name, i) => `own${i} = ${i}`).join(', ')};
    const all = () => ${locals.map((name, i) => `${name} + own${i}`).join(' + ')}; own0 = n; if (n === 0.5) return all(); ${burn} } })()`, { filename: 'locals.js' }));
add(vm.runInThisContext(`/*${'-'.repeat(10e6)}*/(function farAway(n) { ${burn} })`, { filename: 'ten-megabytes.js' }));
add(vm.runInThisContext(['(function () {', ' return function carriageReturns(n) {', burn, '}', '})()'].join('\r\n'), { filename: 'carriage-returns.js' }));
add(vm.runInThisContext(`/* \u2028 and \u2029 end lines */ (function separators(n) { ${burn} })`, { filename: 'separators.js' }));

// Node's own JavaScript: normalizeString of node:path.
const long = '/a/../b'.repeat(250);
add(() => path.posix.normalize(long).length);

// In no order: one after the other they would keep step with a profiler that samples every millisecond.
let seed = 1;
function next() {
  seed ^= seed << 13;
  seed ^= seed >>> 17;
  seed ^= seed << 5;
  return (seed >>> 0) % turns.length;
}

let result = 0;
function turn() {
  for (let i = 0; i < turns.length; i++) result ^= turns[next()](result + i | 0);
}

import('./names.mjs').then((module) => {
  module.turns.forEach(add);
  const stop = Date.now() + Number(process.env.MS || 300000);
  for (let i = 0; i < 5; i++) turn();
  rounds = 60000;
  for (let i = 0; i < 30; i++) turn();
  console.log('ready', turns.length);
  (function again() {
    turn();
    if (Date.now() < stop) setImmediate(again);
    else console.log('done', result, sum);
  })();
});
