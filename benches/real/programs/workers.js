// Two hundred worker threads, of which one computes.
const { Worker, isMainThread, workerData } = require('node:worker_threads');

function spin() {
    let sum = 0;
    for (let end = Date.now() + 5000; Date.now() < end;) for (let n = 0; n < 1e6; n += 1) sum += n % 7;
    return sum;
}

if (isMainThread) {
    const workers = Array.from({ length: 200 }, (_, number) => new Worker(__filename, { workerData: number, resourceLimits: { maxYoungGenerationSizeMb: 2 } }));
    setTimeout(() => workers.forEach((worker) => worker.terminate()), 9000);
} else if (workerData === 77) {
    setTimeout(spin, 2500);
} else {
    setTimeout(() => {}, 60_000);
}
