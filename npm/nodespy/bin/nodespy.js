#!/usr/bin/env node
'use strict';
// Starts the binary of the package for this platform, and ends as it does.
const { spawn } = require('child_process');
const os = require('os');

function fail(why) {
  console.error(`nodespy: ${why}`);
  process.exit(1);
}

function binary() {
  const here = `${process.platform}-${process.arch}`;
  if (here !== 'linux-x64') {
    fail(`only Linux on x86-64 is supported, and this is ${here}`);
  }
  try {
    return require.resolve('nodespy-linux-x64/bin/nodespy');
  } catch {
    return fail('its optional dependency nodespy-linux-x64 is not installed: npm install --include=optional nodespy');
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends its signals to both; what is sent to this process alone is passed on.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2']) {
  process.on(signal, () => { if (!process.stdin.isTTY || signal !== 'SIGINT') child.kill(signal); });
}
child.on('error', (error) => {
  // The file is there, but not the loader that its first bytes ask for.
  fail(error.code === 'ENOENT'
    ? 'the binary needs glibc, which this system (Alpine?) does not have; run nodespy on the host: nodespy record -c CONTAINER'
    : error.message);
});
child.on('exit', (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
