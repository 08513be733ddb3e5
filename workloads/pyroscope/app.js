// Most of the time in `busyWithOrders`, profiled by Pyroscope's own SDK and sent to the address in SERVER every other second.
'use strict';

const Pyroscope = require('@pyroscope/nodejs');

Pyroscope.init({ appName: 'sdk-shop', serverAddress: process.env.SERVER, tags: { env: 'test' }, flushIntervalMs: 2_000 });
Pyroscope.start();

function busyWithOrders() {
    const end = Date.now() + 40;
    let sum = 0;
    while (Date.now() < end) for (let i = 0; i < 1e4; i++) sum += Math.sqrt(i);
    return sum;
}

setInterval(busyWithOrders, 45);
console.log('ready');
setTimeout(() => process.exit(), Number(process.env.MS ?? 9_000));
