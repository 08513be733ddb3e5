'use strict';
// server.js in a worker thread: node worker.js express|fastify|koa|http. The right answer is the same.
const path = require('path');
const { Worker } = require('worker_threads');

new Worker(path.join(__dirname, 'server.js'), { argv: process.argv.slice(2) });
