'use strict';
// Asks app.js for two baskets and one report again and again: node load.js PORT [SECONDS 10]
const http = require('http');

const port = Number(process.argv[2]);
const stop = Date.now() + Number(process.argv[3] || 10) * 1000;
const agent = new http.Agent({ keepAlive: true });
const paths = ['/basket/1', '/report', '/basket/2'];
let answered = 0;

function next(turn) {
  if (Date.now() >= stop) return agent.destroy();
  http.get({ port, agent, host: '127.0.0.1', path: paths[turn % paths.length] }, (response) => {
    response.resume().on('end', () => {
      answered++;
      next(turn + 1);
    });
  }).on('error', () => {});
}

for (let connection = 0; connection < 6; connection++) next(connection);
process.on('exit', () => console.log(`${answered} answered`));
