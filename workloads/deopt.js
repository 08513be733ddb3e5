// A recursion of optimized frames that are all deoptimized, again and again: when the innermost call
// returns a string where numbers were seen before, each frame of `descend` is rebuilt as an
// interpreted one. Every sample of the main thread is under `round`, and is so too while V8 rebuilds a frame.
'use strict';

const until = Date.now() + Number(process.env.MS || 300_000);
const DEPTH = 200;

// Each round has a function of its own: one that was deoptimized has learned.
function freshDescend(number) {
  return new Function(`
    return function descend(depth, last, options) {
      if (depth === 0) return last;
      const below = descend(depth - 1, last, options);
      const here = { depth, below, text: options.text };
      return here.below + here.text.length;
    } // ${number}`)();
}

function round(number) {
  const descend = freshDescend(number);
  const options = { text: 'abc' };
  for (let count = 0; count < 150; count += 1) descend(DEPTH, 1, options);
  return descend(DEPTH, 'surprise', options).length;
}

let total = 0;
let number = 0;
while (number < 20) total += round(number++);
console.log('ready', total);
while (Date.now() < until) total += round(number++);
