// The functions as a table, sortable by every column.

import type { FunctionWeights } from "../model/derived";
import { type FunctionIndex, NO_FUNCTION } from "../model/indexes";
import { categoryOf, nameOf, placeOf } from "../model/profile";
import { CATEGORY_LABELS } from "../model/tables";
import { STANDINGS } from "../model/verdicts";
import type { App, Panel, Target } from "./app";
import { button, element, swatch } from "./dom";
import type { Menu } from "./menu";
import type { Sort } from "./state";
import { count, percent, points, weightText } from "./words";

const FIRST_ROWS = 200;

export class TopView implements Panel {
  readonly root = element("section", { id: "top", className: "view scrolls", tabIndex: 0 });
  private limit = FIRST_ROWS;
  private shown: unknown[] = [];
  private current = NO_FUNCTION; // the function of the row in focus

  constructor(
    private readonly app: App,
    private readonly menu: Menu,
  ) {
    this.root.ariaLabel = "Top functions";
  }

  target(): Target | null {
    return this.current < 0 ? null : { fn: this.current, path: null };
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.state.view !== "top";
    if (this.root.hidden) return;
    const weights = app.ask("functions", { selection: app.selection() });
    if (!weights) return;
    const { sort, isRising, palette, isOnlyChanged } = app.state;
    const inputs = [
      weights,
      app.hits,
      sort,
      isRising,
      palette,
      app.isDark,
      isOnlyChanged,
      app.verdicts,
      this.limit,
    ];
    if (inputs.every((input, at) => input === this.shown[at])) return;
    this.shown = inputs;
    this.draw(weights);
  }

  private draw(weights: FunctionWeights): void {
    const { app } = this;
    const { hits } = app;
    const found: FunctionIndex[] = [];
    for (let fn = 0 as FunctionIndex; fn < weights.total.length; fn++) {
      const isThere = weights.total[fn] > 0 || (weights.baseTotal && weights.baseTotal[fn] > 0);
      const isLeftOut = app.state.isOnlyChanged && (app.verdicts?.isNoise(fn) ?? false);
      if (isThere && !isLeftOut && (!hits || hits[fn])) found.push(fn);
    }
    this.sorted(found, weights);
    const columns: [Sort, string][] = [
      ["self", "Self"],
      ["total", "Total"],
      ...(weights.baseSelf ? [["change", "Self change"] as [Sort, string]] : []),
      ...(app.verdicts ? [["verdict", "Verdict"] as [Sort, string]] : []),
      ["name", "Function"],
      ["place", "Where"],
    ];
    const head = element("tr", {}, ...columns.map(([key, label]) => this.head(key, label)));
    const rows = found.slice(0, this.limit).map((fn) => this.row(fn, weights));
    const more = button(`Show more (${count(found.length)} altogether)`, "", () => {
      this.limit *= 4;
      this.update();
    });
    this.root.replaceChildren(
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
      ...(found.length > this.limit ? [more] : []),
      ...(found.length === 0
        ? [element("p", { className: "empty", textContent: "No function matches." })]
        : []),
    );
  }

  private sorted(found: FunctionIndex[], weights: FunctionWeights): void {
    const { names, state } = this.app;
    const { self, total, baseSelf } = weights;
    const change = (fn: FunctionIndex) => (baseSelf ? this.changeOf(fn, weights) : 0);
    const text =
      state.sort === "name"
        ? new Map(found.map((fn) => [fn, nameOf(names, fn)]))
        : state.sort === "place"
          ? new Map(found.map((fn) => [fn, placeOf(names, fn)]))
          : null;
    const orders: Record<Sort, (left: FunctionIndex, right: FunctionIndex) => number> = {
      self: (left, right) => self[right] - self[left] || total[right] - total[left],
      total: (left, right) => total[right] - total[left] || self[right] - self[left],
      change: (left, right) => change(right) - change(left),
      // What is surest first, then what is largest.
      verdict: (left, right) =>
        this.rankOf(left) - this.rankOf(right) || Math.abs(change(right)) - Math.abs(change(left)),
      name: (left, right) => (text!.get(left)! < text!.get(right)! ? -1 : 1),
      place: (left, right) => (text!.get(left)! < text!.get(right)! ? -1 : 1),
    };
    const order = orders[state.sort];
    found.sort(state.isRising ? (left, right) => order(right, left) : order);
  }

  private changeOf(fn: FunctionIndex, weights: FunctionWeights): number {
    return (weights.self[fn] - weights.baseSelf![fn] * this.app.baseFactor) / (weights.whole || 1);
  }

  private rankOf(fn: FunctionIndex): number {
    const { standing } = this.app.verdictOf(fn) ?? {};
    return standing ? STANDINGS.indexOf(standing) : STANDINGS.length;
  }

  private head(key: Sort, label: string): HTMLElement {
    const { app } = this;
    const isSorted = app.state.sort === key;
    const arrow = isSorted ? (app.state.isRising ? " ▴" : " ▾") : "";
    const sort = button(label + arrow, `Sort by ${label.toLowerCase()}`, () =>
      app.change({ sort: key, isRising: isSorted && !app.state.isRising }, false),
    );
    const head = element("th", { scope: "col", className: key }, sort);
    head.ariaSort = isSorted ? (app.state.isRising ? "ascending" : "descending") : "none";
    return head;
  }

  private verdict(fn: FunctionIndex): HTMLElement {
    const { standing, words } = this.app.verdictOf(fn)!;
    return element("td", {
      className: `verdict ${standing}`,
      textContent: standing === "noise" ? "" : words,
    });
  }

  private row(fn: FunctionIndex, weights: FunctionWeights): HTMLElement {
    const { app } = this;
    const { names } = app;
    const { whole } = weights;
    const share = (value: number) => {
      const bar = element("span", { className: "bar" });
      bar.style.width = `${whole > 0 ? Math.min(100, (value / whole) * 100) : 0}%`;
      return element(
        "td",
        { className: "number", title: weightText(value, weights.event) },
        bar,
        element("span", { textContent: value > 0 ? percent(value, whole) : "–" }),
      );
    };
    const kind = categoryOf(names, fn);
    const name = button(nameOf(names, fn).slice(0, 500), "Callers and callees (s)", () =>
      app.change({ view: "sandwich", fn }),
    );
    name.dir = "auto";
    const place = placeOf(names, fn) || CATEGORY_LABELS[kind];
    const row = element(
      "tr",
      {},
      share(weights.self[fn]),
      share(weights.total[fn]),
      ...(weights.baseSelf
        ? [element("td", { className: "number", textContent: points(this.changeOf(fn, weights), 0) })]
        : []),
      ...(app.verdicts ? [this.verdict(fn)] : []),
      element("td", { className: "name" }, element("div", {}, swatch(app.fillOf(kind)), name)),
      element("td", { className: "place", title: place }, element("bdi", { textContent: place })),
    );
    row.addEventListener("focusin", () => (this.current = fn));
    row.addEventListener("pointerenter", () => (this.current = fn));
    row.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.menu.open({ fn, path: null }, event.clientX, event.clientY);
    });
    return row;
  }
}
