// Right answer: of the CPU time in the two, priceOrders (orders.ts) has 70 % and countStock
// (stock.ts) has 30 %, by count. To be bundled and minified into one line, so that only a source map
// tells the two files apart.
import { priceOrders, type Job } from "./orders";
import { countStock } from "./stock";

// A fixed shuffle and one call site for both, for the same reasons as in split.js.
const plan: Job[] = Array.from({ length: 1000 }, (_, i) => (i < 700 ? priceOrders : countStock));
for (let i = plan.length - 1, random = 1; i > 0; i--) {
  random = (Math.imul(random, 1664525) + 1013904223) | 0;
  const other = (random >>> 8) % (i + 1);
  [plan[i], plan[other]] = [plan[other]!, plan[i]!];
}

let result = 0;
let at = 0;
function serveCustomers(): void {
  for (let i = 0; i < 10; i++) {
    result ^= plan[at]!(result ^ i);
    at = (at + 1) % plan.length;
  }
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 200; i++) serveCustomers();
console.log("ready");

function again(): void {
  serveCustomers();
  if (Date.now() < stop) setImmediate(again);
}
again();
