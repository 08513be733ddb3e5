// `go tool pprof -top`: every function, by the value that pprof shows by default.

import { spawnSync } from 'node:child_process';

const FACTORS = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, mins: 6e4, hrs: 3.6e6, B: 1, '': 1 };

export function openInPprof({ path, expected }) {
  const unit = expected.unit === 'bytes' ? 'B' : 'ms';
  const words = ['-top', '-symbolize=demangle=none', '-nodefraction=0', '-nodecount=1000000', `-unit=${unit}`];
  const done = spawnSync('go', ['tool', 'pprof', ...words, path], { encoding: 'utf8', maxBuffer: 1 << 28 });
  if (done.status !== 0) throw new Error(done.stderr);
  const functions = new Map();
  let total = 0;
  for (const line of done.stdout.split('\n')) {
    const row = /^\s*([\d.]+)([a-zA-Z]*)\s+[\d.]+%\s+[\d.]+%\s+[\d.]+[a-zA-Z]*\s+[\d.]+%\s+(.*)$/.exec(line);
    if (!row) continue;
    const name = row[3].replace(/ \(inline\)$/, '');
    const weight = Number(row[1]) * FACTORS[row[2]];
    if (name !== '(idle)') {
      functions.set(name, (functions.get(name) ?? 0) + weight);
      total += weight;
    }
  }
  return { functions, total, summary: `${functions.size} functions, ${total.toFixed(1)} ${unit}` };
}
