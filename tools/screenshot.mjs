// Takes a picture of a page once its recording is drawn: node tools/screenshot.mjs CHROMIUM URL FILE [WIDTH HEIGHT [dark]]
// Needs Node 22 for its WebSocket. `--screenshot` of Chromium does not wait for the page's worker.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [browser, url, file, width = "1200", height = "640", scheme = "light"] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "nodespy-screenshot-"));
const chromium = spawn(
  browser,
  ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", `--user-data-dir=${profile}`,
    `--window-size=${width},${height}`, "--remote-debugging-port=0", "about:blank"],
  { stdio: ["ignore", "ignore", "pipe"] },
);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

try {
  let said = "";
  const address = await new Promise((resolve, reject) => {
    chromium.once("exit", () => reject(new Error(`${browser} ended: ${said}`)));
    chromium.stderr.on("data", (data) => {
      said += data;
      const found = /ws:\/\/([^/]+)\//.exec(said);
      if (found) resolve(found[1]);
    });
  });
  const targets = await (await fetch(`http://${address}/json`)).json();
  const socket = new WebSocket(targets.find((target) => target.type === "page").webSocketDebuggerUrl);
  await new Promise((resolve) => socket.addEventListener("open", resolve, { once: true }));
  const waiting = new Map();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(data);
    waiting.get(id)?.(result);
  });
  let id = 0;
  const ask = (method, params = {}) =>
    new Promise((resolve) => {
      waiting.set(++id, resolve);
      socket.send(JSON.stringify({ id, method, params }));
    });
  const metrics = { width: +width, height: +height, deviceScaleFactor: 1, mobile: false };
  await ask("Emulation.setDeviceMetricsOverride", metrics);
  const features = [{ name: "prefers-color-scheme", value: scheme }];
  await ask("Emulation.setEmulatedMedia", { features });
  await ask("Page.navigate", { url });
  await sleep(5000);
  const { data } = await ask("Page.captureScreenshot", { format: "png" });
  writeFileSync(file, Buffer.from(data, "base64"));
} finally {
  chromium.kill();
  await new Promise((resolve) => (chromium.exitCode === null ? chromium.once("exit", resolve) : resolve()));
  rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
}
