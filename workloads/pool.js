'use strict';
// Right answer: nearly all CPU time is on libuv's four pool threads, most of it in OpenSSL's SHA-512
// under pbkdf2, then in zlib's deflate, then a little in reading files. The main thread only starts
// the next job.

const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

const text = Buffer.from(Array.from({ length: 20000 }, (_, i) => 'line ' + (i * 7919) % 9973).join('\n'));
const stop = Date.now() + Number(process.env.MS || 300000);

function keepGoing(start) {
  let finished = 0;
  return new Promise((warm) => {
    (function next() {
      if (Date.now() >= stop) return warm();
      start(() => {
        if (++finished === 5) warm();
        next();
      });
    })();
  });
}

function derive(done) { crypto.pbkdf2('password', 'salt', 20000, 64, 'sha512', done); }
function compress(done) { zlib.deflate(text, { level: 6 }, done); }
function read(done) { fs.readFile(__filename, done); }

Promise.all([keepGoing(derive), keepGoing(derive), keepGoing(compress), keepGoing(read)])
  .then(() => console.log('ready'));
