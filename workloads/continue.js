// A loop in `forEach`, inlined with its callback into `sum`, that is deoptimized in the middle: V8
// goes on through builtins that no one has called (`ContinueToJavaScriptBuiltin…`). Every frame has a
// name, theirs too.
'use strict';

const until = Date.now() + Number(process.env.MS || 300_000);

// Each round has a function of its own: one that was deoptimized has learned.
function freshSum(number) {
  return new Function(`
    function spin(count) {
      let hash = count | 0;
      for (let i = 0; i < count; i += 1) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) ^ i;
      return hash;
    }
    return function sum(list, rounds) {
      let total = 0;
      list.forEach((item) => {
        total = total + item.value;
        if (rounds > 0) total = total + spin(rounds);
      });
      return total;
    } // ${number}`)();
}

function round(number) {
  const sum = freshSum(number);
  const list = Array.from({ length: 50 }, (_, value) => ({ value }));
  for (let count = 0; count < 3000; count += 1) sum(list, 0);
  return sum([{ other: 1, value: 1.5 }, ...list], 2_000_000);
}

let number = 0;
round(number++);
console.log('ready');
while (Date.now() < until) round(number++);
