'use strict';
// Right answer: once a second, or every EVERY milliseconds, the event loop is blocked for FOR (400) ms, under blockLoop, which burns, or
// with WHAT=exec waits for a child, or with WHAT=timers arms timers all the time, which moves the time of the loop.
// What innocent does between takes 2 ms. With WHAT=immediates nothing blocks: the loop goes round all the time.

const { execSync } = require('child_process');

function burn(ms) { const end = Date.now() + ms; while (Date.now() < end); }
function innocent() { burn(2); }
function armTimers(ms) {
  const end = Date.now() + ms;
  while (Date.now() < end) clearTimeout(setTimeout(() => {}, 1e6));
}
function goRound() { setImmediate(goRound); }
const what = process.env.WHAT || 'burn';
function blockLoop() {
  if (what === 'exec') execSync('sleep 0.4');
  else if (what === 'timers') armTimers(400);
  else burn(Number(process.env.FOR || 400));
}

setInterval(innocent, 50);
if (what === 'immediates') goRound();
else setInterval(blockLoop, Number(process.env.EVERY || 1000));
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 500);
