// speedscope's own page with a profile, and what its sandwich view lists.

import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const TYPES = { html: 'text/html', js: 'text/javascript', css: 'text/css' };
const FACTORS = { ns: 1e-6, 'µs': 1e-3, ms: 1, s: 1e3, min: 6e4, B: 1, KB: 2 ** 10, MB: 2 ** 20, '': 1 };

/** Serves the page, and the profile as `/profile`. */
async function serve(page, profile) {
  const server = createServer((request, response) => {
    const name = new URL(request.url, 'http://localhost').pathname;
    const file = name === '/profile' ? profile : join(page, name);
    if (!existsSync(file)) return response.writeHead(404).end();
    response.setHeader('content-type', TYPES[file.split('.').pop()] ?? 'application/octet-stream');
    return createReadStream(file).pipe(response);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return server;
}

/** `321.61ms (19%)`, `1:04.00 (3%)` */
function weightOf(text) {
  const minutes = /^(\d+):([\d.]+)/.exec(text);
  if (minutes) return Number(minutes[1]) * 6e4 + Number(minutes[2]) * 1e3;
  const [, number, unit] = /^([\d.,]+)\s*([a-zA-Zµ]*)/.exec(text);
  return Number(number.replace(/,/g, '')) * (FACTORS[unit] ?? 1);
}

export async function openInSpeedscope({ path, folder, browser }) {
  const server = await serve(join(folder, 'node_modules/speedscope/dist/release'), path);
  const address = `http://127.0.0.1:${server.address().port}/index.html#profileURL=/profile`;
  const tab = await browser.open(address);
  try {
    // It names the page after the profile once it shows it.
    await tab.waitFor("document.title.endsWith('- speedscope')");
    await tab.evaluate("dispatchEvent(new KeyboardEvent('keypress', { key: '3' })), 0");
    await tab.waitFor("document.querySelectorAll('tr').length > 1");
    const rows = await tab.evaluate(
      "[...document.querySelectorAll('tr')].map(row => [...row.cells].map(cell => cell.innerText.trim()))",
    );
    const functions = new Map();
    for (const [, self, name] of rows.filter((row) => row[1]?.endsWith('%)'))) {
      functions.set(name, (functions.get(name) ?? 0) + weightOf(self));
    }
    return { functions, summary: `${functions.size} rows, "${await tab.evaluate('document.title')}"` };
  } finally {
    await tab.close();
    server.close();
  }
}
