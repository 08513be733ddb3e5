'use strict';
// Right answer: libuv's pool has sixteen jobs and four threads for them. With WHAT=open (the default)
// four threads are busy all the time and twelve jobs wait, each an fs.open of a pipe that nobody
// writes to. With WHAT=pbkdf2 sixteen are started whenever sixteen are done. With WHAT=dns sixteen names are
// looked up at a server that does not answer, at 127.7.7.7 (the caller has to name it in resolv.conf): libuv gives
// such jobs two of the four threads, fourteen wait.

const { execFileSync } = require('child_process');
const crypto = require('crypto');
const dgram = require('dgram');
const dns = require('dns');
const fs = require('fs');
const path = require('path');

const name = path.join(process.cwd(), `jobs-${process.pid}.fifo`);
const jobs = {
  open(done) { fs.open(name, 'r', done); },
  dns(done) { dns.lookup('nobody.example', done); },
  pbkdf2(done) { crypto.pbkdf2('password', 'salt', 100000, 64, 'sha512', done); },
};
const job = jobs[process.env.WHAT || 'open'];
if (job === jobs.open) execFileSync('mkfifo', [name]);

function start() {
  let left = 16;
  for (let i = 0; i < 16; i++) job(() => { if (--left === 0) start(); });
}

if (job === jobs.dns) dgram.createSocket('udp4').bind(53, '127.7.7.7', start);
else start();

setTimeout(() => process.kill(process.pid), Number(process.env.MS || 300000));
setTimeout(() => console.log('ready'), 500);
