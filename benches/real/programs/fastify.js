// A route whose handler sorts and serializes; fastify's own JSON serializer writes the answer.
const fastify = require('fastify')();
const rows = Array.from({ length: 400 }, (_, id) => ({ id, name: `row ${id * 7919 % 400}`, price: id / 3 }));

function byName(a, b) { return a.name < b.name ? -1 : 1; }

function sortedRows() { return [...rows].sort(byName); }

fastify.get('/rows', async () => sortedRows());
fastify.listen({ port: Number(process.env.PORT) });
