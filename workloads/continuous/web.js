// The shop of shop.js as a web server: an order for each request. It listens on SOCKET, so that a container without a network can be sent
// requests; the package.json beside it says which service and version it is. PARSE is as in shop.js.
'use strict';

const http = require('node:http');
const { handleOrder } = require('./shop.js');

const server = http.createServer((_request, response) => {
    handleOrder();
    response.setHeader('Content-Length', 3);
    response.end('ok\n');
});
server.keepAliveTimeout = 0;
server.listen(process.env.SOCKET, () => console.log('ready'));
setTimeout(() => process.exit(), Number(process.env.MS ?? 600_000));
