// The call tree as rows that open and close, for keyboards and screen readers as well. Only the
// rows in sight exist.

import type { NodeIndex } from "../model/indexes";
import { categoryOf, nameOf, placeOf } from "../model/profile";
import { CATEGORY_LABELS } from "../model/tables";
import type { Tree } from "../model/tree";
import { ROOT } from "../model/tree";
import type { App, Panel, Target } from "./app";
import { eachFrame, element, swatch } from "./dom";
import type { Menu } from "./menu";
import { percent, weightText } from "./words";

const ROW_HEIGHT = 22;
const OPEN_AT_FIRST = 0.5; // share of its parent from which a child is open at first

export class TreeView implements Panel {
  readonly root = element("section", { id: "tree", className: "view" });
  private readonly head = element("div", { className: "grid-row grid-head" });
  private readonly scroller = element("div", { className: "grid-scroller", tabIndex: 0 });
  private readonly body = element("div", { className: "grid-body" });
  private tree: Tree | null = null;
  private isFromLeaf = false; // the tree that is shown, not the one asked for
  private open = new Set<NodeIndex>();
  private rows: NodeIndex[] = [];
  private current = 1 as NodeIndex;
  private readonly schedule = eachFrame(() => this.draw());

  constructor(
    private readonly app: App,
    private readonly menu: Menu,
  ) {
    this.root.setAttribute("role", "treegrid");
    this.root.ariaLabel = "Call tree";
    this.head.setAttribute("role", "row");
    this.scroller.setAttribute("role", "rowgroup");
    this.body.setAttribute("role", "presentation");
    for (const label of ["Total", "Self", "Function", "Where"]) {
      const cell = element("span", { textContent: label, className: label.toLowerCase() });
      cell.setAttribute("role", "columnheader");
      this.head.append(cell);
    }
    this.scroller.append(this.body);
    this.root.append(this.head, this.scroller);
    this.scroller.addEventListener("scroll", this.schedule);
    new ResizeObserver(this.schedule).observe(this.scroller);
  }

  target(): Target | null {
    if (!this.tree || this.current <= 0) return null;
    return {
      fn: this.tree.fn[this.current],
      path: this.isFromLeaf ? null : this.app.pathOf(this.tree, this.current),
    };
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.state.view !== "tree";
    if (this.root.hidden) return;
    const tree = app.state.isFromLeaf ? app.ask("fromLeaf", { selection: app.selection() })?.tree : app.tree;
    if (!tree) return;
    this.isFromLeaf = app.state.isFromLeaf;
    if (tree !== this.tree) this.take(tree);
    this.schedule();
  }

  // Opens the way along which most of the time goes.
  private take(tree: Tree): void {
    this.tree = tree;
    this.open = new Set([ROOT]);
    this.current = Math.min(1, tree.size - 1) as NodeIndex;
    for (let node = 1 as NodeIndex; node < tree.size && node < tree.end[node] - 1; ) {
      this.open.add(node);
      if (tree.total[(node + 1) as NodeIndex] < tree.total[node] * OPEN_AT_FIRST) break;
      node++;
    }
    this.layout();
  }

  private layout(): void {
    const { tree } = this;
    this.rows = [];
    for (let node = 1 as NodeIndex; node < tree!.size; ) {
      this.rows.push(node);
      node = this.open.has(node) ? ((node + 1) as NodeIndex) : tree!.end[node];
    }
    this.body.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.root.setAttribute("aria-rowcount", String(this.rows.length + 1));
  }

  private draw(): void {
    const { tree, scroller } = this;
    if (!tree || this.root.hidden) return;
    const hadFocus = this.body.contains(document.activeElement);
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_HEIGHT) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(scroller.clientHeight / ROW_HEIGHT) + 8);
    this.body.replaceChildren(...this.rows.slice(first, last).map((node, at) => this.row(node, first + at)));
    if (hadFocus)
      this.body.querySelector<HTMLElement>("[aria-selected=true]")?.focus({ preventScroll: true });
  }

  private row(node: NodeIndex, place: number): HTMLElement {
    const { app } = this;
    const tree = this.tree!;
    const fn = tree.fn[node];
    const hasChildren = tree.end[node] > node + 1;
    const isOpen = this.open.has(node);
    const isHit = app.hits !== null && fn >= 0 && app.hits[fn] === 1;
    const row = element("div", {
      className: `grid-row${isHit ? " hit" : ""}`,
      tabIndex: node === this.current ? 0 : -1,
    });
    row.setAttribute("role", "row");
    row.setAttribute("aria-level", String(tree.depth[node]));
    row.setAttribute("aria-rowindex", String(place + 2));
    row.setAttribute("aria-selected", String(node === this.current));
    if (hasChildren) row.setAttribute("aria-expanded", String(isOpen));
    row.style.top = `${place * ROW_HEIGHT}px`;
    const change = tree.baseTotal ? ` ${app.changeText(tree, node)}` : "";
    const arrow = element("span", {
      className: "arrow",
      textContent: hasChildren ? (isOpen ? "▾" : "▸") : "",
    });
    arrow.addEventListener("click", () => this.toggle(node));
    const kind = categoryOf(app.names, fn);
    const name = element(
      "span",
      { className: "function" },
      arrow,
      swatch(app.fillOf(kind)),
      element("bdi", {
        textContent: app.nameOf(fn).slice(0, 400),
        title: nameOf(app.names, fn).slice(0, 600),
      }),
    );
    name.style.paddingLeft = `${Math.min(tree.depth[node] - 1, 60) * 12}px`;
    const where = placeOf(app.names, fn) || CATEGORY_LABELS[kind];
    const cells = [
      element("span", {
        className: "total",
        textContent: percent(tree.total[node], tree.total[ROOT]) + change,
        title: weightText(tree.total[node], tree.event),
      }),
      element("span", {
        className: "self",
        textContent: tree.self[node] > 0 ? percent(tree.self[node], tree.total[ROOT]) : "–",
        title: weightText(tree.self[node], tree.event),
      }),
      name,
      element("span", { className: "where dim", title: where }, element("bdi", { textContent: where })),
    ];
    for (const cell of cells) cell.setAttribute("role", "gridcell");
    row.append(...cells);
    row.addEventListener("click", () => this.select(node));
    row.addEventListener("dblclick", () => this.toggle(node));
    row.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.select(node);
      this.menu.open(this.target(), event.clientX, event.clientY);
    });
    return row;
  }

  private toggle(node: NodeIndex): void {
    if (this.open.has(node)) this.open.delete(node);
    else this.open.add(node);
    this.layout();
    this.draw();
  }

  private select(node: NodeIndex): void {
    this.current = node;
    const at = this.rows.indexOf(node);
    const { scroller } = this;
    if (at * ROW_HEIGHT < scroller.scrollTop) scroller.scrollTop = at * ROW_HEIGHT;
    else if ((at + 1) * ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = (at + 1) * ROW_HEIGHT - scroller.clientHeight;
    this.app.say(this.app.describe(this.tree!, node));
    this.draw();
    this.body.querySelector<HTMLElement>("[aria-selected=true]")?.focus({ preventScroll: true });
  }

  key(event: KeyboardEvent): boolean {
    const tree = this.tree;
    if (!tree || tree.size < 2) return false;
    const at = this.rows.indexOf(this.current);
    const go = (place: number) => this.select(this.rows[Math.max(0, Math.min(this.rows.length - 1, place))]);
    const isOpen = this.open.has(this.current);
    const hasChildren = tree.end[this.current] > this.current + 1;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 1);
    const walks: Record<string, () => void> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(this.rows.length - 1),
      PageDown: () => go(at + page),
      PageUp: () => go(at - page),
      ArrowRight: () => (hasChildren && !isOpen ? this.toggle(this.current) : hasChildren && go(at + 1)),
      ArrowLeft: () =>
        isOpen && hasChildren
          ? this.toggle(this.current)
          : tree.parent[this.current] > 0 && this.select(tree.parent[this.current]),
      Enter: () => hasChildren && this.toggle(this.current),
      n: () => this.nextHit(1),
      N: () => this.nextHit(-1),
    };
    walks[event.key]?.();
    return event.key in walks;
  }

  // Opens what is needed to show the next row that a search found.
  private nextHit(step: 1 | -1): void {
    const tree = this.tree!;
    const { hits } = this.app;
    if (!hits) return;
    for (let moved = 1; moved < tree.size; moved++) {
      const size = tree.size - 1; // the root is no row
      const node = (((((this.current - 1 + step * moved) % size) + size) % size) + 1) as NodeIndex;
      if (tree.fn[node] < 0 || !hits[tree.fn[node]]) continue;
      for (let above = tree.parent[node]; above > 0; above = tree.parent[above]) this.open.add(above);
      this.layout();
      return this.select(node);
    }
  }
}
