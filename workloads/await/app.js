'use strict';
// Right answer: most CPU time is in `taxOf`, four fifths of it for baskets (`basketHandler` awaits `renderBasket`, which
// awaits `priceOf` of each item), the rest for `reportHandler`. On a plain stack all of it starts at a microtask.
//
// Listens on the loopback only; prints `ready PORT`.

const http = require('http');

// A database that answers a moment later.
const query = (value) => new Promise((resolve) => setTimeout(resolve, 1, value));

function taxOf(price) {
  let tax = price | 0;
  for (let i = 0; i < 60000; i++) tax = Math.imul(tax ^ (tax >>> 13), 0x5bd1e995) + i | 0;
  return tax;
}

async function priceOf(item) {
  const price = await query(item * 7919 % 997);
  return price + taxOf(price);
}

async function renderBasket(items) {
  const prices = await Promise.all(items.map((item) => priceOf(item)));
  return prices.map((price) => `<li>${price}</li>`).join('');
}

async function basketHandler(request, response) {
  const items = await query([1, 2, 3, 4]);
  response.end(await renderBasket(items));
}

async function* sales(days) {
  for (let day = 0; day < days; day++) yield query(day);
}

async function reportHandler(request, response) {
  let sum = 0;
  for await (const sale of sales(2)) sum += taxOf(sale);
  response.end(String(sum));
}

const server = http.createServer(function listener(request, response) {
  const handler = request.url.startsWith('/basket') ? basketHandler : reportHandler;
  handler(request, response).catch(() => response.destroy());
});

server.listen(Number(process.env.PORT || 0), '127.0.0.1', () => console.log('ready', server.address().port));
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
