'use strict';
// Right answer: each function that computes is named after the last digits of the trace and the span that it works for:
// t3_s1_compute computes in a span 000…01 of a trace 000…03. Prints `ready`.
const { trace, context } = require('@opentelemetry/api');
const { BasicTracerProvider } = require('@opentelemetry/sdk-trace-base');
const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');

// The ids of the span that is started next.
let next = { trace: 1, span: 1 };
function id(bytes, digit) {
  const id = Buffer.alloc(bytes);
  id[bytes - 1] = digit;
  return id.toString('hex');
}
const idGenerator = { generateTraceId: () => id(16, next.trace), generateSpanId: () => id(8, next.span) };
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ idGenerator }));
const tracer = trace.getTracer('nodespy');
const stop = Date.now() + Number(process.env.MS || 300_000);

// Computes for a fraction of a millisecond.
function compute(seed) {
  let hash = seed | 0;
  for (let turn = 0; turn < 60_000; turn++) hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + turn | 0;
  return hash;
}

const tick = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function functionsOf(number) {
  return new Function('compute', 'tick', 'started', `
    function t${number}_s1_compute() { return compute(1); }
    function t${number}_s2_compute() { return compute(2); }
    async function query(span) {
      await tick(1);
      t${number}_s2_compute();
      span.end();
    }
    return async function handle(span) {
      await tick(1);
      t${number}_s1_compute();
      await Promise.all([started(${number}, 2, query), started(${number}, 2, query)]);
      t${number}_s1_compute();
      span.end();
    };
  `)(compute, tick, started);
}

function started(number, span, work) {
  next = { trace: number, span };
  return tracer.startActiveSpan('work', work);
}

async function serve(number) {
  const handle = functionsOf(number);
  while (Date.now() < stop) {
    await started(number, 1, handle);
    await tick(1);
  }
}

for (let number = 1; number <= 4; number++) serve(number);
console.log('ready');
