'use strict';
// Right answer: under load, the main thread is in answerJson, matchRoute, renderPage and in node's own
// HTTP code; the pool's threads are in zlib's deflate and in OpenSSL's SHA-512 under pbkdf2.
//
// Listens on the loopback only; prints `ready PORT`. Routes: /json /page /login, anything else 404.

const crypto = require('crypto');
const http = require('http');
const zlib = require('zlib');

const products = Array.from({ length: 120 }, (_, i) => ({
  id: i, name: `product ${i}`, price: (i * 7919) % 997 / 10, tags: ['t' + i % 7, 'u' + i % 11],
}));
const routes = Array.from({ length: 40 }, (_, i) => new RegExp(`^/v${i % 3}/shop${i}/(\\d+)/(?:[a-z]+-)*end$`));

function answerJson() {
  const copy = JSON.parse(JSON.stringify(products));
  copy.sort((a, b) => a.price - b.price || (a.name < b.name ? -1 : 1));
  return JSON.stringify({ count: copy.length, items: copy });
}

function matchRoute(path) {
  for (const route of routes) {
    const match = route.exec(path);
    if (match) return match[1];
  }
  return '0';
}

function renderPage() {
  const rows = products.map((item) => `<tr><td>${item.id}</td><td>${escapeText(item.name)}</td><td>${item.price.toFixed(2)}</td></tr>`);
  return `<!doctype html><title>shop ${matchRoute('/v1/shop37/12345/ab-cd-ef-end')}</title><table>${rows.join('')}</table>`;
}

function escapeText(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function send(request, response, type, body) {
  zlib.gzip(body, (error, packed) => {
    response.writeHead(200, { 'content-type': type, 'content-encoding': 'gzip' });
    response.end(packed);
  });
}

const server = http.createServer((request, response) => {
  switch (request.url) {
    case '/json': return send(request, response, 'application/json', answerJson());
    case '/page': return send(request, response, 'text/html', renderPage());
    case '/login': return crypto.pbkdf2('password', 'salt', 2000, 64, 'sha512', (error, key) => response.end(key.toString('hex')));
    default: response.writeHead(404); response.end();
  }
});

server.listen(0, '127.0.0.1', () => console.log('ready', server.address().port));
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
