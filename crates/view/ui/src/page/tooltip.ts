// What the box under the pointer is.

import type { Bar } from "../model/folds";
import { KIND_LABELS } from "../model/frames";
import type { FunctionIndex, NodeIndex } from "../model/indexes";
import { categoryOf, nameOf, placeOf } from "../model/profile";
import { CATEGORY_LABELS, Category, TIER_LABELS } from "../model/tables";
import type { Tree } from "../model/tree";
import { ROOT } from "../model/tree";
import { type App, selfOf } from "./app";
import { byId, element, swatch } from "./dom";
import { percent, points, weightText } from "./words";

const MAX_FRAMES = 8; // of a bar, by name

export class Tooltip {
  private readonly root = byId("tooltip");

  constructor(private readonly app: App) {}

  hide(): void {
    this.root.hidden = true;
  }

  show(tree: Tree, node: NodeIndex, focus: NodeIndex, x: number, y: number, bar: Bar | null = null): void {
    if (node < 0) return this.hide();
    const fn = tree.fn[node];
    const share = (value: number) => {
      const parts = [weightText(value, tree.event), `${percent(value, tree.total[ROOT])} of all`];
      if (focus > 0) parts.push(`${percent(value, tree.total[focus])} of view`);
      return parts.join(" · ");
    };
    const rows: [string, string][] = [["total", share(tree.total[node])]];
    // The preview has no such detail.
    const self = this.app.isReady ? selfOf(tree, node, bar) : null;
    if (self) rows.push([self[0], share(self[1])]);
    if (tree.baseTotal) {
      const [now, before] = this.app.sharesOf(tree, node);
      rows.push(["before", percent(before, 1)], ["change", points(now, before)]);
      const verdict = this.app.verdictOf(fn);
      if (verdict) rows.push(["self change", verdict.words]);
    }
    const marks = [TIER_LABELS[tree.tier[node]], KIND_LABELS[tree.kind[node]] ?? ""];
    if (bar) return this.showBar(tree, bar, rows, x, y);
    this.fill(fn, marks, rows);
    this.place(x, y);
  }

  // The frames of a bar, from the root.
  private showBar(tree: Tree, bar: Bar, rows: [string, string][], x: number, y: number): void {
    const names = bar.nodes.map((node) => this.app.nameOf(tree.fn[node]).slice(0, 60));
    const shown = names.length > MAX_FRAMES ? [...names.slice(0, MAX_FRAMES - 2), "…", names.at(-1)!] : names;
    this.showText(
      bar.label,
      [...rows, ["frames", shown.join(" › ")], ["click", "shows them one by one"]],
      x,
      y,
    );
  }

  // The same for something that is no node of a tree.
  showFunction(fn: FunctionIndex, rows: [string, string][], x: number, y: number): void {
    this.fill(fn, [], rows);
    this.place(x, y);
  }

  showText(title: string, rows: [string, string][], x: number, y: number): void {
    this.root.replaceChildren(element("strong", { textContent: title, dir: "auto" }), list(rows));
    this.place(x, y);
  }

  private fill(fn: FunctionIndex, marks: string[], rows: [string, string][]): void {
    const { names } = this.app;
    const place = placeOf(names, fn);
    const kind = categoryOf(names, fn);
    const parts: Node[] = [element("strong", { textContent: nameOf(names, fn).slice(0, 600), dir: "auto" })];
    if (place)
      parts.push(element("div", { className: "place", textContent: place.slice(-300), dir: "auto" }));
    if (fn >= 0) {
      const owner = names.packages[names.packageOf[fn]] ?? "";
      const label = CATEGORY_LABELS[kind] + (kind === Category.Dependency && owner ? ` ${owner}` : "");
      const text = [label, ...marks].filter(Boolean).join(" · ");
      parts.push(element("div", {}, swatch(this.app.fillOf(kind)), text));
    }
    this.root.replaceChildren(...parts, list(rows));
  }

  private place(x: number, y: number): void {
    this.root.hidden = false;
    const box = this.root.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8));
    const fitsBelow = y + 18 + box.height < innerHeight;
    this.root.style.left = `${left}px`;
    this.root.style.top = `${fitsBelow ? y + 18 : Math.max(4, y - box.height - 12)}px`;
  }
}

function list(rows: [string, string][]): HTMLElement {
  return element(
    "dl",
    {},
    ...rows.flatMap(([name, value]) => [
      element("dt", { textContent: name }),
      element("dd", { textContent: value }),
    ]),
  );
}
