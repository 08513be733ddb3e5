// Two hundred worker threads, of which one computes: a fixed amount, so that a busy machine only takes longer.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

function spin() {
    let sum = 0;
    for (let round = 0; round < 4000; round += 1) for (let n = 0; n < 1e6; n += 1) sum += n % 7;
    return sum;
}

if (isMainThread) {
    const workers = Array.from({ length: 200 }, (_, number) => new Worker(__filename, { workerData: number, resourceLimits: { maxYoungGenerationSizeMb: 2 } }));
    workers[77].once('message', () => workers.forEach((worker) => worker.terminate()));
} else if (workerData === 77) {
    setTimeout(() => parentPort.postMessage(spin()), 2500);
} else {
    setTimeout(() => {}, 600_000);
}
