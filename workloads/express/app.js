'use strict';
// Right answer: under load, the main thread is in express's router and middleware, in listProducts
// (lodash), renderPage and JSON; the pool's threads are in zlib's deflate (compression) and in OpenSSL's
// SHA-512 under pbkdf2.
//
// Listens on the loopback only; prints `ready PORT`. The same routes as ../server.js.

const crypto = require('crypto');
const compression = require('compression');
const express = require('express');
const _ = require('lodash');

const products = _.times(120, (i) => ({
  id: i, name: `product ${i}`, price: (i * 7919) % 997 / 10, tags: ['t' + i % 7, 'u' + i % 11],
}));
const page = _.template('<!doctype html><title>shop</title><table><% _.forEach(items, function (item) { %>'
  + '<tr><td><%- item.id %></td><td><%- item.name %></td><td><%= item.price %></td></tr><% }); %></table>', { imports: { _ } });

function listProducts() {
  const groups = _.groupBy(_.cloneDeep(products), (item) => item.tags[0]);
  return _.mapValues(groups, (items) => _.sortBy(items, ['price', 'name']));
}

function renderPage() {
  return page({ items: _.orderBy(products, ['price'], ['desc']) });
}

const app = express();
app.use(compression({ threshold: 0 }));
app.use(express.json());
app.get('/json', (request, response) => response.json(listProducts()));
app.get('/page', (request, response) => response.type('html').send(renderPage()));
app.get('/login', (request, response) => {
  crypto.pbkdf2('password', 'salt', 2000, 64, 'sha512', (error, key) => response.send(key.toString('hex')));
});

const server = app.listen(Number(process.env.PORT || 0), '127.0.0.1', () => console.log('ready', server.address().port));
setTimeout(() => process.exit(), Number(process.env.MS || 300000));
