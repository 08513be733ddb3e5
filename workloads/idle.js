'use strict';
// Right answer: no samples. The process sleeps; it wakes up once, to end.

setTimeout(() => process.exit(), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 200);
