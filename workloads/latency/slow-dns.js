'use strict';
// A name server at 127.7.7.7 that takes 150 ms for an answer, 127.0.0.1 to every question, and the service that is asked
// for prices, which answers at once. Prints `ready PORT`.

const dgram = require('dgram');
const http = require('http');

const socket = dgram.createSocket('udp4');
socket.on('message', (question, from) => {
  const answer = Buffer.concat([
    question.subarray(0, 2),
    // A response without an error, to one question, with one answer.
    Buffer.from([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]),
    question.subarray(12, question.indexOf(0, 12) + 5),
    // The name of the question, an A record, for a minute.
    Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]),
  ]);
  setTimeout(() => socket.send(answer, from.port, from.address), 150);
});
socket.bind(53, '127.7.7.7', () => {
  const upstream = http.createServer((request, response) => response.end('42\n'));
  upstream.listen(0, '127.0.0.1', () => console.log('ready', upstream.address().port));
});
