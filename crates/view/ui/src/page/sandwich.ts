// Callers above, callees below, one function between them.

import { type FunctionIndex, NO_FUNCTION, NO_NODE, type NodeIndex } from "../model/indexes";
import { placeOf } from "../model/profile";
import type { Tree } from "../model/tree";
import { ROOT } from "../model/tree";
import type { App, Panel, Target } from "./app";
import { element } from "./dom";
import { Flame, type FlameEvents } from "./flame";
import { sceneOf } from "./flameview";
import type { Menu } from "./menu";
import type { Tooltip } from "./tooltip";
import { percent } from "./words";

export class Sandwich implements Panel {
  readonly root = element("section", { id: "sandwich", className: "view" });
  private readonly bar = element("div", { className: "view-bar" });
  private readonly hint = element("p", {
    className: "empty",
    textContent: "Choose a function first: press s on a box, or pick one of the top functions below.",
  });
  private readonly callers: Flame;
  private readonly callees: Flame;
  // What is drawn: the function and its trees belong together.
  private shown: { fn: FunctionIndex; callers: Tree; callees: Tree } | null = null;

  constructor(
    private readonly app: App,
    tooltip: Tooltip,
    menu: Menu,
  ) {
    this.callers = new Flame("Callers", this.events("callers", tooltip, menu));
    this.callees = new Flame("Callees", this.events("callees", tooltip, menu));
    this.root.append(
      this.bar,
      this.hint,
      element("div", { className: "half" }, element("h2", { textContent: "Callers" }), this.callers.root),
      element("div", { className: "half" }, element("h2", { textContent: "Callees" }), this.callees.root),
    );
  }

  private events(which: "callers" | "callees", tooltip: Tooltip, menu: Menu): FlameEvents {
    const { app } = this;
    const tree = () => this.shown![which];
    const target = (node: NodeIndex): Target | null =>
      node > 0 ? { fn: tree().fn[node], path: null } : null;
    return {
      hover: (node, x, y) => (this.shown ? tooltip.show(tree(), node, ROOT, x, y) : tooltip.hide()),
      zoom: (node) => tree().fn[node] >= 0 && app.change({ fn: tree().fn[node] }),
      select: (node) => app.say(node < 0 ? "" : app.describe(tree(), node)),
      menu: (node, x, y) => menu.open(target(node), x, y),
      drop: (node) => tree().fn[node] >= 0 && app.addTransform({ kind: "drop", fn: tree().fn[node] }),
    };
  }

  private get active(): { flame: Flame; tree: Tree } | null {
    if (!this.shown) return null;
    const isCallers =
      this.callers.selected >= 0 ||
      this.callers.hover >= 0 ||
      this.callers.root.contains(document.activeElement);
    return isCallers
      ? { flame: this.callers, tree: this.shown.callers }
      : { flame: this.callees, tree: this.shown.callees };
  }

  target(): Target | null {
    const node = this.active
      ? this.active.flame.hover >= 0
        ? this.active.flame.hover
        : this.active.flame.selected
      : NO_NODE;
    if (node > 0) return { fn: this.active!.tree.fn[node], path: null };
    return this.shown && { fn: this.shown.fn, path: null };
  }

  // Without a choice, the function that took the most time itself.
  private get fn(): FunctionIndex {
    const { app } = this;
    if (app.state.fn >= 0) return app.state.fn;
    const weights = app.ask("functions", { selection: app.selection() })?.self;
    if (!weights) return NO_FUNCTION;
    let heaviest = NO_FUNCTION;
    for (let fn = 0 as FunctionIndex; fn < weights.length; fn++)
      if (weights[fn] > 0 && (heaviest < 0 || weights[fn] > weights[heaviest])) heaviest = fn;
    return heaviest;
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.state.view !== "sandwich";
    if (this.root.hidden || !app.isReady) return;
    const { fn } = this;
    this.hint.hidden = fn >= 0;
    if (fn < 0) return;
    const answer = app.ask("sandwich", { selection: app.selection(), fn });
    if (!answer) return;
    const { callers, callees, whole } = answer;
    this.shown = { fn, callers, callees };
    const place = placeOf(app.names, fn);
    const share = (weight: number) => percent(weight, whole);
    this.bar.replaceChildren(
      element("strong", { textContent: app.nameOf(fn).slice(0, 200), dir: "auto" }),
      element("span", { className: "dim", textContent: place, dir: "auto" }),
      element("span", {
        textContent: `total ${share(callees.total[ROOT])}, self ${share(selfOf(callees, fn))}`,
      }),
    );
    this.callers.show(
      callers.size > 1
        ? sceneOf(app, callers, ROOT, { isIcicle: false, isOfCallers: true, firstRow: 1 })
        : null,
    );
    this.callees.show(callees.size > 1 ? sceneOf(app, callees, ROOT, { isIcicle: true, firstRow: 1 }) : null);
  }

  key(event: KeyboardEvent): boolean {
    const { active } = this;
    if (!active) return false;
    const isCallers = active.flame === this.callers;
    const walks: Record<string, () => void> = {
      ArrowUp: () => active.flame.walk(isCallers ? "out" : "in"),
      ArrowDown: () => active.flame.walk(isCallers ? "in" : "out"),
      ArrowLeft: () => active.flame.walk("previous"),
      ArrowRight: () => active.flame.walk("next"),
      Enter: () =>
        active.flame.selected > 0 && this.app.change({ fn: active.tree.fn[active.flame.selected] }),
      n: () => active.flame.nextHit(1),
      N: () => active.flame.nextHit(-1),
    };
    walks[event.key]?.();
    return event.key in walks;
  }
}

function selfOf(tree: Tree, fn: FunctionIndex): number {
  let self = 0;
  for (let node = 1 as NodeIndex; node < tree.size; node++) if (tree.fn[node] === fn) self += tree.self[node];
  return self;
}
