'use strict';
// Asks server.js for its six routes again and again: node load.js PORT [SECONDS 30] [http2|http2-streams]
const http = require('http');
const http2 = require('http2');

const port = Number(process.argv[2]);
const stop = Date.now() + Number(process.argv[3] || 30) * 1000;
const agent = new http.Agent({ keepAlive: true });
const asked = [
  ['GET', (turn) => `/shop/items/${turn}?token=secret`],
  ['GET', (turn) => `/shop/report/${2000 + turn % 20}`],
  ['POST', (turn) => `/shop/orders/${turn}`],
  ['GET', () => '/shop/search/shoes?token=secret'],
  ['GET', () => '/shop/files/price-list'],
  ['GET', () => '/shop/health'],
];

function next(turn) {
  if (Date.now() >= stop) return agent.destroy();
  const [method, path] = asked[turn % asked.length];
  const request = http.request({ port, agent, method, host: '127.0.0.1', path: path(turn) }, (response) => {
    response.resume().on('end', () => next(turn + 1));
  });
  request.on('error', () => {});
  request.end();
}

// The same on one connection of HTTP/2, with what is asked for in the order of a browser, or of Node.
function nextStream(session, turn) {
  if (Date.now() >= stop) return session.close();
  const [method, path] = asked[turn % asked.length];
  const named = turn % 2 ? { ':method': method, ':path': path(turn) }
    : { ':method': method, ':authority': '127.0.0.1', ':scheme': 'http', ':path': path(turn) };
  const request = session.request({ ...named, cookie: 'session=secret' });
  request.resume().on('end', () => nextStream(session, turn + 1));
  request.on('error', () => {});
  request.end();
}

if ((process.argv[4] || '').startsWith('http2')) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  session.on('error', () => {});
  for (let stream = 0; stream < 6; stream++) nextStream(session, stream);
} else {
  for (let connection = 0; connection < 6; connection++) next(connection);
}
console.log('ready');
