// A synchronous hash on the main thread of a server.
const { pbkdf2Sync } = require('node:crypto');
const app = require('express')();

function passwordHash(password) { return pbkdf2Sync(password, 'salt', 2000, 32, 'sha256').toString('hex'); }

app.get('/login', (request, response) => response.json({ hash: passwordHash('secret') }));
app.listen(Number(process.env.PORT));
