// Exports each recording for each program, has the program open it, and compares what it says with
// nodespy's own report. Prints a line for each; ends with 1 if any differs.

import { spawnSync } from 'node:child_process';
import { basename, join } from 'node:path';

import { startBrowser } from './browser.mjs';
import { openInDevTools } from './devtools.mjs';
import { openInPprof } from './pprof.mjs';
import { openInSpeedscope } from './speedscope.mjs';

const [nodespy, folder, ...recordings] = process.argv.slice(2);

// Whether the program shows all threads as one, or each by itself.
const OPENERS = [
  { name: 'go tool pprof', format: 'pprof', file: 'pb.gz', open: openInPprof, showsAll: true },
  { name: 'speedscope', format: 'speedscope', file: 'speedscope.json', open: openInSpeedscope },
  { name: 'DevTools', format: 'cpuprofile', file: 'cpuprofile', open: openInDevTools },
  { name: 'DevTools', format: 'chrome-trace', file: 'trace.json', open: openInDevTools },
];

// V8's names for what is no function: the programs leave them out, or show them in a way of their own.
const META = ['(program)', '(idle)', '(garbage collector)'];

function run(...words) {
  const done = spawnSync(nodespy, words, { encoding: 'utf8', maxBuffer: 1 << 28 });
  return done.status === 0 ? done.stdout : Promise.reject(new Error(done.stderr.trim()));
}

/** What nodespy says: the weight of functions by name, and their sum, in milliseconds or bytes. */
async function expectedOf(recording, showsAll) {
  const report = async (...more) =>
    JSON.parse(await run('report', recording, '--format', 'json', '--raw', '--no-idle', ...more));
  let said = await report();
  const busiest = said.threads[0];
  if (!showsAll && said.threads.length > 1) said = await report('--thread', String(busiest.tid));
  const perUnit = {
    samples: said.about.rate_hz ? 1e3 / said.about.rate_hz : 1,
    ns: 1e-6,
    nanoseconds: 1e-6,
    bytes: 1,
  }[said.unit];
  const functions = new Map();
  for (const { name, self } of said.functions_by_self) {
    if (META.includes(name)) continue;
    functions.set(name, (functions.get(name) ?? 0) + self * perUnit);
  }
  const sample = said.about.rate_hz ? 1e3 / said.about.rate_hz : 0;
  return { unit: said.unit, total: said.total * perUnit, sample, functions, tid: busiest?.tid ?? 0 };
}

/** How a program's numbers differ, in words; nothing if they do not. */
function difference(expected, shown) {
  // A program may take the last sample for longer or shorter than it was.
  const allowed = Math.max(expected.total * 0.01, expected.sample);
  for (const [name, weight] of [...expected.functions].slice(0, 10)) {
    const found = shown.functions.get(name) ?? 0;
    // The program adds up functions of one name, of which the report lists only the heaviest.
    if (found < weight - allowed || found > weight + 5 * allowed) {
      return `${name}: ${found.toFixed(1)} instead of ${weight.toFixed(1)}`;
    }
  }
  if (shown.total !== undefined && Math.abs(shown.total - expected.total) > allowed) {
    return `total ${shown.total.toFixed(1)} instead of ${expected.total.toFixed(1)}`;
  }
  return undefined;
}

const browser = await startBrowser(join(folder, 'browser'));
let failures = 0;
for (const recording of recordings) {
  for (const opener of OPENERS) {
    const path = join(folder, `${basename(recording)}.${opener.file}`);
    const line = `${basename(recording)} → ${opener.format} → ${opener.name}`;
    try {
      const expected = await expectedOf(recording, opener.showsAll);
      const holdsBytes = ['pprof', 'speedscope'].includes(opener.format);
      if (expected.unit === 'bytes' && !holdsBytes) continue;
      await run('convert', recording, path, '--to', opener.format, '--raw');
      const shown = await opener.open({ path, folder, browser, expected });
      const wrong = difference(expected, shown);
      failures += wrong ? 1 : 0;
      console.log(`${wrong ? 'DIFFERS' : 'ok     '} ${line}: ${wrong ?? shown.summary}`);
    } catch (error) {
      failures += 1;
      console.log(`FAILED  ${line}: ${error.message}`);
    }
  }
}
browser.close();
process.exit(failures > 0 ? 1 : 0);
