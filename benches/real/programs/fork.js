// A parent that waits for a child that computes.
const { fork } = require('node:child_process');

function collatz(start) {
    let steps = 0;
    for (let n = start; n !== 1; steps += 1) n = n % 2 ? 3 * n + 1 : n / 2;
    return steps;
}

if (process.argv[2] === 'child') {
    const end = Date.now() + 5000;
    let longest = 0;
    for (let n = 1; Date.now() < end; n += 1) longest = Math.max(longest, collatz(n));
    process.send(longest);
    process.disconnect();
} else {
    fork(__filename, ['child']).on('message', () => {});
}
