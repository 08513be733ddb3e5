'use strict';
// Right answer: nearly all time is in priceCart, called by sellCarts. The instance that ODD names
// (NODE_APP_INSTANCE, from 0) spends it in recountStock instead. With IDLE=1 it only listens.
// With EASE=20 the others rest for 20 ms after each sale, so that the odd one is the busy one.
//
// Listens on the loopback at PORT, any free one unless told; prints `ready PORT`.

const http = require('http');

function priceCart(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 100000; i++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
  return hash;
}

function recountStock(seed) {
  let hash = seed | 0;
  for (let i = 0; i < 100000; i++) hash = Math.imul(hash ^ (hash >>> 13), 0x297a2d39) ^ i;
  return hash;
}

const isOdd = process.env.ODD !== undefined && process.env.ODD === process.env.NODE_APP_INSTANCE;
const work = isOdd ? recountStock : priceCart;
const stop = Date.now() + Number(process.env.MS || 300000);
const ease = isOdd ? 0 : Number(process.env.EASE || 0);
const rest = ease ? (next) => setTimeout(next, ease) : setImmediate;
let sold = 0;

function sellCarts() {
  for (let i = 0; i < 10; i++) sold ^= work(sold ^ i);
}

function keepSelling() {
  sellCarts();
  if (Date.now() < stop) rest(keepSelling);
  else process.exit();
}

const server = http.createServer((request, response) => response.end(`${sold}\n`));
server.listen(Number(process.env.PORT || 0), '127.0.0.1', () => {
  console.log('ready', server.address().port);
  if (process.env.IDLE === '1') setTimeout(() => process.exit(), Number(process.env.MS || 300000));
  else keepSelling();
});
