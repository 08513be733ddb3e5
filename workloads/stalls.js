'use strict';
// Right answer: once a second, or every EVERY milliseconds, the event loop is blocked for 400 ms, under blockLoop, which burns, or
// with WHAT=exec waits for a child; what innocent does between takes 2 ms.

const { execSync } = require('child_process');

function burn(ms) { const end = Date.now() + ms; while (Date.now() < end); }
function innocent() { burn(2); }
function blockLoop() { if (process.env.WHAT === 'exec') execSync('sleep 0.4'); else burn(400); }

setInterval(innocent, 50);
setInterval(blockLoop, Number(process.env.EVERY || 1000));
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 500);
