'use strict';
// Not a workload: lets one tell the truth about itself. With PROFILE=FILE in the environment the
// process runs V8's own profiler from now on and writes FILE as a .cpuprofile when SIGTERM comes.
// `unixMinusMonotonic` (microseconds) is added, so that its samples can be laid beside another
// profiler's.
//
// To be called first: until node 24 V8's profiler does not know code that was optimized before it
// started, and blames the caller.

const file = process.env.PROFILE;

exports.start = function start() {
  if (!file) return;
  const { Session } = require('inspector');
  const fs = require('fs');
  const session = new Session();
  session.connect();
  const post = (method, parameters) => new Promise((resolve, reject) => {
    session.post(method, parameters, (error, result) => (error ? reject(error) : resolve(result)));
  });
  post('Profiler.enable');
  post('Profiler.setSamplingInterval', { interval: Number(process.env.INTERVAL_US || 1000) });
  post('Profiler.start');
  process.once('SIGTERM', () => {
    post('Profiler.stop').then(({ profile }) => {
      const monotonic = Number(process.hrtime.bigint() / 1000n);
      profile.unixMinusMonotonic = Date.now() * 1000 - monotonic;
      fs.writeFileSync(file, JSON.stringify(profile));
      console.log('profiled');
      process.exit();
    });
  });
};
