// All of the work is in a pool of worker threads; the main thread waits.
const { Piscina } = require('piscina');
const { isMainThread } = require('node:worker_threads');

function primesBelow(limit) {
    let primes = 0;
    for (let n = 2; n < limit; n += 1) {
        let divisor = 2;
        while (divisor * divisor <= n && n % divisor) divisor += 1;
        if (divisor * divisor > n) primes += 1;
    }
    return primes;
}

if (isMainThread) {
    const pool = new Piscina({ filename: __filename, maxThreads: 2 });
    const end = Date.now() + 5000;
    const again = () => pool.run(100_000).then(() => Date.now() < end && again());
    Promise.all([again(), again()]).then(() => pool.destroy());
} else {
    module.exports = primesBelow;
}
