'use strict';
// Right answer: five lines submit jobs to libuv's pool. For each job of `statIt` (line 14) there are three of
// `hashPassword` (line 18, through crypto), two of `pack` (line 22, through zlib), one of `lookup` (line 26) and one of
// `readConfig` (line 30), whose file is read by further jobs that Node submits itself: 1 : 3 : 2 : 1 : 1.

const crypto = require('crypto');
const dns = require('dns');
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

function lookup(done) {
  dns.lookup('localhost', done);
}

function readConfig(done) {
  fs.readFile(__filename, done);
}

// With hardly a pause there are thousands of jobs a second, of which nodespy samples some.
const PAUSE_MS = Number(process.env.PAUSE_MS || 20);

function round() {
  let left = 8;
  const done = () => { if (--left === 0) setTimeout(round, PAUSE_MS); };
  statIt(done);
  for (let i = 0; i < 3; i++) hashPassword(done);
  for (let i = 0; i < 2; i++) pack(done);
  lookup(done);
  readConfig(done);
}

round();
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 500);
