#!/usr/bin/env node
'use strict';
// Starts the binary of the package for this platform, and ends as it does.
const { spawn } = require('child_process');
const os = require('os');

function binary() {
  try {
    return require.resolve('nodespy-linux-x64/bin/nodespy');
  } catch {
    const here = `${process.platform}-${process.arch}`;
    const why = here === 'linux-x64'
      ? 'its optional dependency nodespy-linux-x64 is not installed: npm install --include=optional nodespy'
      : `it records on Linux x86-64 only, and this is ${here}`;
    console.error(`nodespy: ${why}`);
    process.exit(1);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends its signals to both; what is sent to this process alone is passed on.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) {
  process.on(signal, () => { if (!process.stdin.isTTY || signal !== 'SIGINT') child.kill(signal); });
}
child.on('error', (error) => {
  console.error(`nodespy: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
