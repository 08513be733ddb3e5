// A headless Chromium, by way of its remote debugging port.

import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';

const ARGUMENTS = [
  '--headless=new',
  '--no-sandbox',
  '--disable-gpu',
  '--enable-unsafe-swiftshader',
  '--disable-dev-shm-usage',
  '--disable-background-networking',
  '--disable-component-update',
  '--no-first-run',
  '--remote-debugging-port=0',
  '--window-size=1400,900',
];

/** Starts a browser whose profile is in `folder`. */
export async function startBrowser(folder) {
  const child = spawn('chromium', [...ARGUMENTS, `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const address = await new Promise((found, failed) => {
    let text = '';
    child.stderr.on('data', (piece) => {
      text += piece;
      const match = /DevTools listening on (ws:\S+)/.exec(text);
      if (match) found(match[1]);
    });
    child.on('exit', () => failed(new Error(`chromium ended: ${text}`)));
  });
  const socket = new WebSocket(address);
  await new Promise((opened) => (socket.onopen = opened));
  const waiting = new Map();
  let last = 0;
  socket.onmessage = ({ data }) => {
    const { id, result, error } = JSON.parse(data);
    const waiter = waiting.get(id);
    waiting.delete(id);
    if (error) waiter?.failed(new Error(error.message));
    else waiter?.done(result);
  };
  const send = (method, params, sessionId) =>
    new Promise((done, failed) => {
      waiting.set(++last, { done, failed });
      socket.send(JSON.stringify({ id: last, method, params, sessionId }));
    });

  /** Opens an address in a tab of its own. */
  async function open(url) {
    const { targetId } = await send('Target.createTarget', { url });
    const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
    /** What an expression is in the page; a promise is waited for. */
    async function evaluate(expression) {
      const parameters = { expression, awaitPromise: true, returnByValue: true };
      const answer = await send('Runtime.evaluate', parameters, sessionId);
      const wrong = answer.exceptionDetails;
      if (wrong) throw new Error(wrong.exception?.description ?? wrong.text);
      return answer.result.value;
    }
    /** Waits until an expression is true. */
    async function waitFor(expression, seconds = 60) {
      for (const end = Date.now() + seconds * 1000; Date.now() < end; ) {
        const isSo = await evaluate(`Boolean(${expression})`).catch(() => false);
        if (isSo) return;
        await new Promise((later) => setTimeout(later, 100));
      }
      throw new Error(`never: ${expression}`);
    }
    const close = () => send('Target.closeTarget', { targetId });
    return { evaluate, waitFor, close };
  }

  function close() {
    child.removeAllListeners('exit');
    child.on('exit', () => rmSync(folder, { recursive: true, force: true }));
    child.kill();
    socket.close();
  }
  return { open, close };
}
