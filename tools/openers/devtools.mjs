// The Performance panel of Chromium's DevTools, opened as a page of its own: loads a file and adds
// up the entries of the flame chart it draws.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** What one message to the browser may hold. */
const PIECE = 8e6;

const LOAD = (name) => `(async () => {
  const { TimelinePanel } = await import('./panels/timeline/timeline.js');
  const { ViewManager } = await import('./ui/legacy/legacy.js');
  await ViewManager.ViewManager.instance().showView('timeline');
  globalThis.panel = TimelinePanel.TimelinePanel.instance();
  panel.loadFromFile(new File(pieces, ${JSON.stringify(name)}));
})()`;

// A profile alone has its entries with the samples, a trace with the threads.
const CHART = (tid) => `(() => {
  const { data } = panel.model.parsedTrace(0);
  for (const [pid, threads] of data.Samples.profilesInProcess) {
    for (const [id, profile] of threads) {
      if (threads.size > 1 && id !== ${tid}) continue;
      const isAlone = profile.profileCalls.length > 0;
      const thread = data.Renderer.processes.get(pid)?.threads.get(id);
      const calls = isAlone ? profile.profileCalls : thread?.profileCalls ?? [];
      const nodes = isAlone ? data.Samples.entryToNode : data.Renderer.entryToNode;
      const self = {};
      for (const call of calls) {
        const name = call.callFrame.functionName || '(anonymous)';
        self[name] = (self[name] ?? 0) + (nodes.get(call)?.selfTime ?? 0) / 1e3;
      }
      return { self, calls: calls.length, range: Number(data.Meta.traceBounds.range) / 1e3 };
    }
  }
  return { self: {}, calls: 0, range: 0 };
})()`;

export async function openInDevTools({ path, browser, expected }) {
  const tab = await browser.open('devtools://devtools/bundled/devtools_app.html');
  try {
    await tab.waitFor("document.title === 'DevTools' && document.body.children.length > 1");
    await tab.evaluate('globalThis.pieces = [], 0');
    const text = readFileSync(path, 'utf8');
    for (let at = 0; at < text.length; at += PIECE) {
      await tab.evaluate(`pieces.push(${JSON.stringify(text.slice(at, at + PIECE))}), 0`);
    }
    await tab.evaluate(LOAD(basename(path)));
    await tab.waitFor('panel.model.size() > 0 && panel.model.parsedTrace(0)', 240);
    const { self, calls, range } = await tab.evaluate(CHART(expected.tid));
    const functions = new Map(Object.entries(self).filter(([name]) => name !== '(idle)'));
    const summary = `${calls} entries of ${functions.size} functions in ${range.toFixed(1)} ms`;
    return { functions, summary };
  } finally {
    await tab.close();
  }
}
