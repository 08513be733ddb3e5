'use strict';
// Right answer: nearly all CPU time is in `hotLoop`, the exported function 1 of a WebAssembly module
// that has a name section, called by callWasm; function 0, `helper`, is called by hotLoop each round.

require('./truth').start();

const section = (id, ...bytes) => [id, ...length(bytes.length), ...bytes];
const length = (n) => (n < 128 ? [n] : [n & 127 | 128, n >> 7]);
const text = (word) => [word.length, ...Buffer.from(word)];
const i32 = 0x7f;
const helper = [0, 0x20, 0, 0x41, 0xed, 0x00, 0x6c, 0x41, 13, 0x6a, 0x0b]; // n * 109 + 13
const hotLoop = [
  1, 1, i32, // one local: the hash
  0x03, 0x40, // loop
  0x20, 1, 0x41, 15, 0x76, 0x20, 1, 0x73, 0x41, 0xad, 0x01, 0x6c, 0x10, 0, 0x21, 1, // hash = helper((hash >>> 15 ^ hash) * 173)
  0x20, 0, 0x41, 1, 0x6b, 0x22, 0, // n = n - 1
  0x0d, 0, // again while n
  0x0b, 0x20, 1, 0x0b, // return hash
];
const name = (index, word) => [index, ...text(word)];
const names = [2, name(0, 'helper'), name(1, 'hotLoop')].flat();
const bytes = Uint8Array.from([
  0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
  ...section(1, 1, 0x60, 1, i32, 1, i32),
  ...section(3, 2, 0, 0),
  ...section(7, 1, ...text('run'), 0, 1),
  ...section(10, 2, helper.length, ...helper, hotLoop.length, ...hotLoop),
  ...section(0, ...text('name'), 0, 1 + 6, ...text('burner').slice(0, 7), 1, names.length, ...names),
].flat());

const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes));

let result = 0;
function callWasm() {
  for (let i = 0; i < 10; i++) result ^= instance.exports.run(200000);
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 50; i++) callWasm();
console.log('ready');

(function again() {
  callWasm();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
