// Synchronous bcrypt: an addon on the main thread.
const bcrypt = require('bcrypt');

function checkPassword(password) { return bcrypt.hashSync(password, 8); }

for (const end = Date.now() + 4000; Date.now() < end;) checkPassword('secret');
