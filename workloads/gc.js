'use strict';
// Right answer: everything runs in young closures that litter: `link`, `each` and `sift`. The scavenger
// runs all the time and moves the closures while they are on the stack.

require('./truth').start();

function chain(depth) {
  const inner = depth > 0 ? chain(depth - 1) : null;
  return function link(n) {
    const litter = [];
    for (let i = 0; i < 40; i++) litter.push({ n, i, name: 'item ' + (n + i), next: () => i + n });
    let sum = inner ? inner(n + 1) : 0;
    litter.forEach(function each(item) { sum += item.next() + item.name.length; });
    return sum + litter.filter((item) => item.i % 2 === 0).map(function sift(item) { return [item.i, item.n]; }).length;
  };
}

let result = 0;
function turn() {
  for (let i = 0; i < 20; i++) result = result + chain(12)(i) | 0;
}

const stop = Date.now() + Number(process.env.MS || 300000);
for (let i = 0; i < 20; i++) turn();
console.log('ready');

(function again() {
  turn();
  if (Date.now() < stop) setImmediate(again);
  else console.log('done', result);
})();
