// The flame graph's view: from the root or from the leaf, upwards or downwards.

import { barAt, drawnAs, type Folds } from "../model/folds";
import { type FunctionIndex, NO_FUNCTION, NO_NODE, type NodeIndex } from "../model/indexes";
import type { Names } from "../model/profile";
import { ROOT, type Tree } from "../model/tree";
import type { App, Panel, Target } from "./app";
import { element } from "./dom";
import { Flame, type FlameEvents, type Scene } from "./flame";
import type { Menu } from "./menu";
import type { Tooltip } from "./tooltip";

export interface SceneOptions {
  isIcicle: boolean;
  isOfCallers?: boolean; // whether what is on a box called it
  firstRow?: number;
}

export function sceneOf(app: App, tree: Tree, focus: NodeIndex, options: SceneOptions): Scene {
  const diff = app.diffOf(tree, options.isOfCallers ?? false);
  const drawn = app.drawn(tree, diff);
  return {
    names: app.names,
    tree: drawn,
    folds: null,
    focus,
    firstRow: options.firstRow ?? 0,
    hits: app.hits,
    ...app.paint(),
    heat: app.heat,
    isIcicle: options.isIcicle,
    colors: app.colors,
    // Boxes of other widths are not in the order of their widths.
    isByName: app.state.order === "name" || drawn !== tree,
    hasPlaces: app.isReady,
    change: diff?.change ?? null,
    changed: diff?.changed ?? null,
    sign: diff && ((node) => app.signOf(tree, diff, node)),
  };
}

const WORTH_SEEING = 0.02; // of the whole

function heaviestOf(tree: Tree, fn: FunctionIndex): NodeIndex {
  let heaviest = NO_NODE;
  for (let node = 1 as NodeIndex; node < tree.size; node++)
    if (tree.fn[node] === fn && (heaviest < 0 || tree.total[node] > tree.total[heaviest])) heaviest = node;
  return heaviest;
}

export class FlameView implements Panel {
  readonly root = element("section", { id: "flame", className: "view" });
  readonly flame: Flame;
  private tree: Tree;
  private names: Names; // of the tree
  private isFromLeaf = false; // the tree that is shown, not the one asked for

  constructor(
    private readonly app: App,
    tooltip: Tooltip,
    menu: Menu,
  ) {
    this.tree = app.tree;
    this.names = app.names;
    const events: FlameEvents = {
      hover: (node, x, y) => tooltip.show(this.tree, node, this.focus, x, y, barAt(this.folds, node)),
      zoom: (node) => this.zoom(node),
      select: (node) => app.say(this.describe(node)),
      menu: (node, x, y) => menu.open(this.targetAt(node), x, y),
      drop: (node) => {
        const target = this.targetAt(node);
        if (target && target.fn >= 0) app.addTransform({ kind: "drop", fn: target.fn });
      },
    };
    this.flame = new Flame("Flame graph", events);
    this.root.append(this.flame.root);
  }

  private describe(node: NodeIndex): string {
    return node < 0 ? "" : this.app.describe(this.tree, node, barAt(this.folds, node));
  }

  // What is drawn as one bar: nothing where the reader opened it, or zoomed into it.
  private get folds(): Folds | null {
    const { app, focus } = this;
    if (this.isFromLeaf || app.state.isStartOpen || this.tree !== app.tree) return null;
    const { folds } = app;
    return folds?.barOf.has(focus) ? null : folds;
  }

  // Functions have other numbers in the preview: what was zoomed into is not found there.
  private get focus(): NodeIndex {
    return this.app.isReady ? this.app.nodeAt(this.tree, this.app.state.zoom) : ROOT;
  }

  private targetAt(node: NodeIndex): Target | null {
    if (node <= 0 || !this.app.isReady || barAt(this.folds, node)) return null;
    return {
      fn: this.tree.fn[node],
      path: this.isFromLeaf ? null : this.app.pathOf(this.tree, node),
    };
  }

  target(): Target | null {
    return this.targetAt(this.flame.selected >= 0 ? this.flame.selected : this.flame.hover);
  }

  zoom(node: NodeIndex): void {
    if (barAt(this.folds, node)) return this.app.change({ isStartOpen: true });
    if (!this.app.isReady) return;
    this.flame.resetSpan();
    this.app.change({ zoom: this.app.pathOf(this.tree, node < 0 ? ROOT : node) });
    this.app.say(node > 0 ? this.describe(node) : "");
  }

  zoomOut(): void {
    if (this.flame.isPanned) this.flame.resetSpan();
    else this.zoom(drawnAs(this.folds, this.tree.parent[this.focus]));
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    this.root.hidden = state.view !== "flame";
    if (this.root.hidden) return;
    const asked = state.isFromLeaf ? app.ask("fromLeaf", { selection: app.selection() })?.tree : app.tree;
    // What is drawn stays until there is an answer, but not with names of another reading.
    const tree = asked ?? (this.names === app.names ? null : app.tree);
    if (tree) {
      this.tree = tree;
      this.names = app.names;
      this.isFromLeaf = state.isFromLeaf && tree === asked;
    }
    const { isFromLeaf: isOfCallers } = this;
    const scene = sceneOf(app, this.tree, this.focus, { isIcicle: state.isIcicle, isOfCallers });
    this.flame.show({ ...scene, folds: this.folds });
    if (app.revealing >= 0 && app.answers.tree.answer) this.reveal(app.revealing);
  }

  // Selects the heaviest box of a function, and zooms so far that it can be seen.
  private reveal(fn: FunctionIndex): void {
    const { app, tree } = this;
    app.revealing = NO_FUNCTION;
    const node = heaviestOf(tree, fn);
    if (node < 0) return app.say(`${app.nameOf(fn)} is not in the picture`);
    if (tree.total[node] < WORTH_SEEING * tree.total[ROOT])
      app.change({ zoom: app.pathOf(tree, tree.parent[node]) }, false);
    this.flame.select(node);
    this.flame.root.focus({ preventScroll: true });
  }

  key(event: KeyboardEvent): boolean {
    const { flame, app } = this;
    const [up, down] = app.state.isIcicle ? (["in", "out"] as const) : (["out", "in"] as const);
    const walks: Record<string, () => void> = {
      ArrowUp: () => flame.walk(up),
      ArrowDown: () => flame.walk(down),
      ArrowLeft: () => flame.walk("previous"),
      ArrowRight: () => flame.walk("next"),
      Home: () => flame.walk("first"),
      End: () => flame.walk("last"),
      Enter: () => flame.selected >= 0 && this.zoom(flame.selected),
      "+": () => flame.zoomAt(0.5, 1.5),
      "=": () => flame.zoomAt(0.5, 1.5),
      w: () => flame.zoomAt(0.5, 1.5),
      "-": () => flame.zoomAt(0.5, 1 / 1.5),
      a: () => flame.pan(-0.2),
      d: () => flame.pan(0.2),
      n: () => flame.nextHit(1),
      N: () => flame.nextHit(-1),
    };
    const walk = walks[event.key];
    if (walk) walk();
    return walk !== undefined;
  }
}
