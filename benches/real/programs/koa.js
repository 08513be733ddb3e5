// Three middlewares, of which the second computes.
const Koa = require('koa');
const app = new Koa();

function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

app.use(async (context, next) => { await next(); context.set('x-served-by', 'koa'); });
app.use(async (context, next) => { context.state.number = fibonacci(20); await next(); });
app.use(async (context) => { context.body = { number: context.state.number }; });
app.listen(Number(process.env.PORT));
