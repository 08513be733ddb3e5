'use strict';
// A service that asks another one for prices, as they all do: the example of docs/guide/latency.md.
// Right answer: CPU is nearly idle; requests wait for dns.lookup, of which libuv runs two at a time. With
// CACHED=1 a name is looked up once and requests take a few milliseconds.

const dns = require('dns');
const http = require('http');

const upstream = `http://prices.example:${process.env.UPSTREAM_PORT}/`;
const known = new Map();

function cachedLookup(name, options, done) {
  if (!known.has(name)) known.set(name, dns.promises.lookup(name, { family: 4 }));
  known.get(name).then(({ address, family }) => {
    if (options.all) done(null, [{ address, family }]);
    else done(null, address, family);
  }, done);
}

function fetchPrices(done) {
  const options = process.env.CACHED ? { lookup: cachedLookup } : { family: 4 };
  http.get(upstream, { ...options, agent: false }, (response) => {
    response.resume();
    response.on('end', () => done(null));
  }).on('error', done);
}

const server = http.createServer((request, response) => {
  fetchPrices((error) => {
    response.statusCode = error ? 502 : 200;
    response.end(error ? `${error.code}\n` : 'ok\n');
  });
});
server.listen(Number(process.env.PORT || 0), '127.0.0.1', () => console.log('ready', server.address().port));
