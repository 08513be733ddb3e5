// A second profile dropped on the page becomes the base of a diff. nodespy reads it, so this
// works where the page is served by `nodespy view`.

import type { App } from "./app";
import { byId } from "./dom";

export function acceptDrops(app: App): void {
  const zone = byId("drop");
  const isServed = location.protocol === "http:" || location.protocol === "https:";
  let depth = 0;
  const hasFiles = (event: DragEvent) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    depth++;
    zone.hidden = false;
    byId("drop-text").textContent = isServed
      ? "Drop a profile to compare with: it becomes the base of the diff"
      : "A second profile can be dropped where nodespy serves the page: nodespy view FILE";
  });
  addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    zone.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    zone.hidden = true;
    const file = event.dataTransfer?.files[0];
    if (file && isServed) void compareWith(app, file);
  });
  const choose = byId<HTMLInputElement>("base-file");
  byId("base-open").hidden = !isServed;
  choose.addEventListener("change", () => choose.files?.[0] && void compareWith(app, choose.files[0]));
}

async function compareWith(app: App, file: File): Promise<void> {
  app.say(`Reading ${file.name}…`);
  try {
    const response = await fetch("base", { method: "POST", body: file });
    if (!response.ok) throw new Error((await response.text()).slice(0, 500));
    const base = [[new Uint8Array(await response.arrayBuffer())]];
    // What the page was made with is about another base.
    app.comparison = null;
    const opened = await app.client.open([], base, app.preview.subsystemOf);
    await app.open(opened, { compare: "base", zoom: [] });
    app.change({});
    app.say(`Compared with ${file.name}`);
  } catch (error) {
    app.say(`${file.name} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}
