// Saves what is drawn as a picture.

import { nameOf } from "../model/profile";
import { ROOT } from "../model/tree";
import type { App } from "./app";
import { element } from "./dom";
import { type Flame, ROW } from "./flame";
import type { FlameView } from "./flameview";
import { percent, weightText } from "./words";

function flameOf(app: App): Flame | null {
  const panel = app.panels.find((each): each is FlameView => "flame" in each);
  if (app.state.view !== "flame" || !panel) {
    app.say("Only the flame graph can be saved; press 1 for it.");
    return null;
  }
  return panel.flame;
}

function download(content: Blob, name: string): void {
  const link = element("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (app: App, extension: string): string =>
  `${app.preview.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "profile"}.${extension}`;

// biome-ignore lint/suspicious/noControlCharactersInRegex: XML cannot hold them, names of functions can
const NOT_XML = /[\u0000-\u0008\u000b-\u001f\ufffe\uffff]/g;

const escaped = (text: string): string =>
  text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`).replace(NOT_XML, "?");

// The boxes in sight, each with its name and weight as a title, as flame graphs have them.
export function saveSvg(app: App): void {
  const flame = flameOf(app);
  if (!flame) return;
  const { boxes, height, tree } = flame.picture();
  const width = flame.root.clientWidth;
  const top = (row: number) => (app.state.isIcicle ? row * ROW : height - (row + 1) * ROW);
  const groups = boxes.map(({ row, from, to, node, fill, ink, bar }) => {
    const name = (bar?.label ?? nameOf(app.names, tree.fn[node])).slice(0, 500);
    const weight = weightText(tree.total[node], tree.event);
    const title = `${name} (${weight}, ${percent(tree.total[node], tree.total[ROOT])})`;
    const letters = Math.floor((to - from - 7) / 6.6);
    const shown = letters < 3 ? "" : name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
    const label = shown
      ? `<text x="${(from + 4).toFixed(1)}" y="${top(row) + 12.5}" fill="${ink}">${escaped(shown)}</text>`
      : "";
    const place = `x="${from.toFixed(1)}" y="${top(row)}"`;
    const size = `width="${Math.max(0.1, to - from - 0.5).toFixed(1)}" height="${ROW - 1}"`;
    return `<g><title>${escaped(title)}</title><rect ${place} ${size} fill="${fill}"/>${label}</g>`;
  });
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  const font = `font-family="Verdana,sans-serif" font-size="11"`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>\n${groups.join("\n")}\n</svg>\n`;
  download(new Blob([svg], { type: "image/svg+xml" }), fileName(app, "svg"));
}

export function saveImage(app: App): void {
  flameOf(app)
    ?.picture()
    .canvas.toBlob((blob) => blob && download(blob, fileName(app, "png")));
}
