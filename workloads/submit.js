'use strict';
// Right answer: three lines submit jobs to libuv's pool. For each job of `statIt` (line 12) there are three of
// `hashPassword` (line 16, through crypto) and two of `pack` (line 20, through zlib): 1 : 3 : 2.

const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

const text = Buffer.alloc(256, 'a');

function statIt(done) {
  fs.stat(__filename, done);
}

function hashPassword(done) {
  crypto.pbkdf2('password', 'salt', 10, 64, 'sha512', done);
}

function pack(done) {
  zlib.deflateRaw(text, done);
}

function round() {
  let left = 6;
  const done = () => { if (--left === 0) setTimeout(round, 10); };
  statIt(done);
  for (let i = 0; i < 3; i++) hashPassword(done);
  for (let i = 0; i < 2; i++) pack(done);
}

round();
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 500);
