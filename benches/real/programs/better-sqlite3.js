// A query without an index, in an addon of its own.
const Database = require('better-sqlite3');
const database = new Database(':memory:');
database.exec('create table events (id integer, kind text, value integer)');
const insert = database.prepare('insert into events values (?, ?, ?)');
for (let id = 0; id < 20_000; id += 1) insert.run(id, `kind ${id % 50}`, id * 7919 % 1000);

function totalOf(kind) { return database.prepare('select sum(value) total from events where kind = ?').get(kind).total; }

for (const end = Date.now() + 4000; Date.now() < end;) totalOf(`kind ${Date.now() % 50}`);
