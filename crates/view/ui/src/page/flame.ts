// A flame graph or icicle: a canvas as large as what is visible, drawn again whenever that
// changes, and one above it for the marks that follow the pointer.

import { type Bar, barAt, drawnAs, type Folds, isWithin } from "../model/folds";
import { ASYNC, KIND_SIGNS } from "../model/frames";
import { NO_NODE, type NodeIndex } from "../model/indexes";
import type { Names } from "../model/profile";
import { ROOT, type Tree } from "../model/tree";
import { GONE } from "./app";
import { cssPixel, diffPixel, HIT, inkOn, isBright, type Paint, packed, stateFill } from "./colors";
import { eachFrame, element, fit } from "./dom";
import { Labels } from "./labels";
import { Raster } from "./raster";
import { percent } from "./words";

export const ROW = 18;
const MIN_BOX_WIDTH = 1; // boxes of fewer pixels are merged with their neighbours into grey
const LABEL_FROM = 22;
const SHARE_FROM = 160;

export interface Scene {
  names: Names;
  tree: Tree;
  folds: Folds | null; // what is drawn as one bar
  focus: NodeIndex;
  firstRow: number; // rows before it, such as the root of a sandwich, are not drawn
  hits: Uint8Array | null;
  paint: Paint;
  faded: Paint; // for what a search does not find, and for what is below the zoom
  heat: Uint32Array | null; // colours by function, if they stand for self time
  isIcicle: boolean;
  isByName: boolean;
  hasPlaces: boolean; // whether boxes also show where a function is, as room allows
  change: ((node: NodeIndex) => number) | null; // in a diff: from -1 to 1
  changed: Uint8Array | null; // in a diff: by node, whether that can be told from noise
  sign: ((node: NodeIndex) => string) | null; // in a diff: what stands before a name
  colors: { back: string; rest: string; text: string };
}

export interface FlameEvents {
  hover(node: NodeIndex, x: number, y: number): void;
  zoom(node: NodeIndex): void;
  select(node: NodeIndex): void;
  menu(node: NodeIndex, x: number, y: number): void;
  drop(node: NodeIndex): void;
}

export class Flame {
  readonly root = element("div", { className: "flame-scroller", tabIndex: 0 });
  private readonly spacer = element("div", { className: "flame-spacer" });
  private readonly canvas = element("canvas");
  private readonly marks = element("canvas", { className: "marks" });
  private readonly context = this.canvas.getContext("2d", { alpha: false })!;
  private readonly raster = new Raster(this.context);
  private labels: Labels | null = null;
  private scene: Scene | null = null;
  private boxes: number[][] = []; // by row: from, to, node, from, to, node, …
  private height = 0;
  // What is visible, read once a drawing: asking the document for every box takes longer than
  // painting it.
  private sight = { width: 0, height: 0, top: 0 };
  private span: { from: number; to: number } | null = null; // in weights; null for all of the focus
  hover = NO_NODE;
  selected = NO_NODE;
  private hasMarks = false;
  private isStale = false;
  private readonly nextFrame = eachFrame(() => this.isStale && this.draw());

  constructor(
    label: string,
    private readonly events: FlameEvents,
  ) {
    this.root.ariaLabel = `${label}. Arrow keys move, Enter zooms, 0 zooms out, M opens the menu.`;
    this.root.setAttribute("role", "application");
    this.spacer.append(element("div", { className: "flame-stage" }, this.canvas, this.marks));
    this.root.append(this.spacer);
    this.root.addEventListener("scroll", this.schedule);
    new ResizeObserver(() => this.layout()).observe(this.root);
    this.listen();
  }

  // Draws with the next frame, unless it is drawn before.
  readonly schedule = (): void => {
    this.isStale = true;
    this.nextFrame();
  };

  // Draws a scene, or nothing.
  show(scene: Scene | null): void {
    const { scene: before } = this;
    this.canvas.style.visibility = scene ? "" : "hidden";
    if (!scene) {
      this.scene = null;
      this.hover = this.selected = NO_NODE;
      this.boxes = [];
      this.drawMarks();
      return;
    }
    if (before && (Object.keys(scene) as (keyof Scene)[]).every((key) => scene[key] === before[key])) return;
    const isNew =
      scene.tree !== this.scene?.tree ||
      scene.focus !== this.scene?.focus ||
      scene.folds !== this.scene?.folds ||
      scene.isIcicle !== this.scene?.isIcicle;
    if (scene.tree !== this.scene?.tree || scene.folds !== this.scene.folds)
      this.hover = this.selected = NO_NODE;
    this.scene = scene;
    this.labels ??= new Labels(this.context, scene.names);
    this.labels.use(scene.names);
    if (isNew) {
      this.span = null;
      this.layout(true);
    }
    this.schedule();
  }

  // Makes room for every row of the focused part; shows its base when that is new.
  private layout(isNew = false): void {
    const { scene } = this;
    if (!scene || this.root.clientHeight === 0) return;
    const { tree, focus, folds } = scene;
    let deepest = this.rowOf(focus);
    if (focus === 0) deepest = (folds?.rows ?? tree.rows) - 1;
    else for (let node = focus; node < tree.end[focus]; node++) deepest = Math.max(deepest, this.rowOf(node));
    const height = Math.max((deepest + 1 - scene.firstRow) * ROW, this.root.clientHeight);
    // What grows from the bottom stays there when the window changes.
    const fromBottom = this.height - this.sight.top - this.sight.height;
    if (height !== this.height) {
      this.height = height;
      this.spacer.style.height = `${height}px`;
    }
    if (isNew) this.showRow(this.rowOf(focus));
    else if (!scene.isIcicle) this.root.scrollTop = height - fromBottom - this.root.clientHeight;
    // Remembered before it is drawn: the window may change again until then.
    this.see();
    this.schedule();
  }

  private see(): void {
    const { clientWidth: width, clientHeight: height, scrollTop: top } = this.root;
    this.sight = { width, height, top };
  }

  private rowOf(node: NodeIndex): number {
    const { tree, folds } = this.scene!;
    return folds ? folds.row[node] : tree.depth[node];
  }

  private rowTop(row: number): number {
    const shown = row - this.scene!.firstRow;
    return this.scene!.isIcicle ? shown * ROW : this.height - (shown + 1) * ROW;
  }

  // Scrolls as little as needed to have a row in sight.
  showRow(row: number): void {
    const { root } = this;
    const top = this.rowTop(row);
    const margin = Math.min(3 * ROW, root.clientHeight / 3);
    const isBelow = top + ROW + margin > root.scrollTop + root.clientHeight;
    if (top - margin < root.scrollTop) root.scrollTop = top - margin;
    else if (isBelow) root.scrollTop = top + ROW + margin - root.clientHeight;
  }

  draw(): void {
    const { scene, root } = this;
    // A frame is drawn before the observer tells that there is more or less room.
    if (root.clientHeight !== this.sight.height) this.layout();
    this.isStale = false;
    const [width, height] = [root.clientWidth, root.clientHeight];
    if (!scene || !width || !height) return;
    this.see();
    const ratio = fit(this.canvas, width, height);
    this.boxes = [];
    this.raster.start(this.canvas.width, this.canvas.height, packed(scene.colors.back));
    const rowsSeen = this.paintBoxes(width, ratio);
    for (const y of rowsSeen)
      this.raster.repeat(Math.max(0, y), Math.round((ROW - 1) * ratio) - Math.max(0, -y));
    this.raster.finish();
    this.writeLabels(ratio);
    this.drawMarks();
  }

  private view(): { from: number; scale: number; to: number } {
    const { tree, focus } = this.scene!;
    const from = this.span?.from ?? tree.start[focus];
    const to = this.span?.to ?? tree.start[focus] + tree.total[focus];
    return { from, to, scale: to > from ? this.sight.width / (to - from) : 0 };
  }

  // Walks the focused part in preorder. Where the heaviest come first, the first box that is too
  // narrow ends its row of siblings.
  private paintBoxes(width: number, ratio: number): Set<number> {
    const scene = this.scene!;
    const { tree, focus, folds } = scene;
    const rows = new Set<number>();
    for (
      let node = tree.parent[focus];
      node >= 0 && tree.depth[node] >= scene.firstRow;
      node = tree.parent[node]
    )
      if (!isWithin(folds, node)) this.paintBox(node, 0, width, ratio, rows, true);
    const { from, to, scale } = this.view();
    const rest = packed(scene.colors.rest);
    for (let node = focus; node < tree.end[focus]; ) {
      const start = tree.start[node];
      const x = (start - from) * scale;
      const boxWidth = tree.total[node] * scale;
      if (start > to || start + tree.total[node] < from) {
        node = tree.end[node];
        continue;
      }
      if (isWithin(folds, node)) {
        node++;
        continue;
      }
      if (boxWidth < MIN_BOX_WIDTH && node !== focus) {
        const below = tree.parent[node];
        const restEnd = scene.isByName
          ? x + boxWidth
          : (tree.start[below] + tree.total[below] - tree.self[below] - from) * scale;
        this.paintRest(this.rowOf(node), x, restEnd, rest, ratio, rows);
        node = scene.isByName ? tree.end[node] : tree.end[below];
        continue;
      }
      this.paintBox(node, x, x + boxWidth, ratio, rows, false);
      node = this.isPastSight(this.rowOf(node)) ? tree.end[node] : ((node + 1) as NodeIndex);
    }
    return rows;
  }

  private isPastSight(row: number): boolean {
    const top = this.rowTop(row) - this.sight.top;
    return this.scene!.isIcicle ? top > this.sight.height : top + ROW < 0;
  }

  private paintRest(
    row: number,
    from: number,
    to: number,
    color: number,
    ratio: number,
    rows: Set<number>,
  ): void {
    if (to - from < 0.5) return;
    const y = Math.round((this.rowTop(row) - this.sight.top) * ratio);
    this.raster.box(Math.max(0, y), from * ratio, to * ratio, color);
    rows.add(y);
  }

  private paintBox(
    node: NodeIndex,
    from: number,
    to: number,
    ratio: number,
    rows: Set<number>,
    isBelowZoom: boolean,
  ): void {
    const row = this.rowOf(node);
    const top = this.rowTop(row) - this.sight.top;
    if (top + ROW < 0 || top > this.sight.height) return;
    (this.boxes[row] ??= []).push(Math.max(from, 0), Math.min(to, this.sight.width), node);
    const gap = to - from > 3 ? 1 : 0;
    const y = Math.round(top * ratio);
    this.raster.box(Math.max(0, y), from * ratio, to * ratio - gap, this.fill(node, isBelowZoom));
    rows.add(y);
  }

  private fill(node: NodeIndex, isBelowZoom: boolean): number {
    const { tree, folds, paint, hits, faded, heat, change, changed, colors } = this.scene!;
    const fn = tree.fn[node];
    if (this.isHit(node)) return packed(HIT);
    if (barAt(folds, node) && !change) return packed(colors.rest);
    if (hits || isBelowZoom) return faded.pixel(fn, tree.tier[node]);
    if (changed && !changed[node]) return packed(colors.rest);
    if (heat && !change) return heat.at(fn)!;
    if (tree.state && !change) return packed(stateFill({ state: tree.state[node], wait: "" }));
    return change ? diffPixel(change(node), paint.isDark) : paint.pixel(fn, tree.tier[node]);
  }

  // Whether a search found the function of a box, or one of a bar.
  private isHit(node: NodeIndex): boolean {
    const { tree, folds, hits } = this.scene!;
    if (!hits) return false;
    return (barAt(folds, node)?.nodes ?? [node]).some(
      (each) => tree.fn[each] >= 0 && hits[tree.fn[each]] === 1,
    );
  }

  private writeLabels(ratio: number): void {
    const { context, labels, scene } = this;
    const { tree, folds, focus, changed } = scene!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `12px ${getComputedStyle(this.root).fontFamily}`;
    context.textBaseline = "middle";
    for (const [row, boxes] of this.boxes.entries()) {
      if (!boxes) continue;
      const y = this.rowTop(row) - this.sight.top + (ROW - 1) / 2;
      for (let at = 0; at < boxes.length; at += 3) {
        const [from, to, node] = [boxes[at], boxes[at + 1], boxes[at + 2] as NodeIndex];
        const sign = scene!.sign?.(node) ?? "";
        const isBelowZoom = focus > 0 && tree.depth[node] < tree.depth[focus];
        const isAsync = tree.kind[node] === ASYNC;
        if (sign === GONE) this.hatch(from, to, y, "#0005");
        else if (isAsync) this.hatch(from, to, y, isBright(this.fill(node, isBelowZoom)) ? "#0002" : "#fff2");
        if (to - from < LABEL_FROM) continue;
        const bar = barAt(folds, node);
        context.fillStyle = this.isHit(node) ? "#fff" : inkOn(this.fill(node, isBelowZoom));
        if (bar) labels!.write(`▸ ${bar.label}`, from + 4, y, to - from - 7);
        else
          labels!.draw(
            tree.fn[node],
            from + 4,
            y,
            to - from - 7,
            sign + (KIND_SIGNS[tree.kind[node]] ?? ""),
            scene!.hasPlaces,
            changed === null && to - from >= SHARE_FROM ? percent(tree.total[node], tree.total[ROOT]) : "",
          );
      }
    }
    this.nameHidden();
    context.setTransform(1, 0, 0, 1, 0, 0);
  }

  // Strikes a box out that the later side has not, or that waits for what is above it.
  private hatch(from: number, to: number, middle: number, color: string): void {
    const { context } = this;
    const [top, bottom] = [middle - (ROW - 1) / 2, middle + (ROW - 1) / 2];
    context.save();
    context.beginPath();
    context.rect(from, top, to - from, bottom - top);
    context.clip();
    context.strokeStyle = color;
    context.beginPath();
    for (let x = from - ROW; x < to; x += 6) {
      context.moveTo(x, bottom);
      context.lineTo(x + ROW, top);
    }
    context.stroke();
    context.restore();
  }

  // Says what the empty room above the root is: code of which no frame is shown.
  private nameHidden(): void {
    const { context, scene } = this;
    const { tree, focus, firstRow, colors } = scene!;
    if (focus !== ROOT || firstRow > 0 || tree.self[ROOT] === 0) return;
    const { from, scale } = this.view();
    const end = Math.min((tree.start[ROOT] + tree.total[ROOT] - from) * scale, this.sight.width);
    const start = Math.max(end - tree.self[ROOT] * scale, 0);
    if (end - start < LABEL_FROM) return;
    context.fillStyle = colors.text;
    context.globalAlpha = 0.68;
    const y = this.rowTop(1) - this.sight.top + (ROW - 1) / 2;
    this.labels!.write("other code, hidden", start + 4, y, end - start - 7);
    context.globalAlpha = 1;
  }

  // Outlines the box under the pointer, the selected one, and others of the same function.
  drawMarks(): void {
    const { scene, hover, selected } = this;
    const isNeeded = scene !== null && (hover >= 0 || selected >= 0);
    // A canvas that was never drawn on costs nothing.
    if (!isNeeded && !this.hasMarks) return;
    const ratio = fit(this.marks, this.sight.width, this.sight.height);
    const context = this.marks.getContext("2d")!;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.marks.width, this.marks.height);
    this.hasMarks = isNeeded;
    if (!isNeeded) return;
    const { tree } = scene;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const lead = hover >= 0 ? hover : selected;
    for (const [row, boxes] of this.boxes.entries()) {
      if (!boxes) continue;
      const y = this.rowTop(row) - this.sight.top;
      for (let at = 0; at < boxes.length; at += 3) {
        const [from, to, node] = [boxes[at], boxes[at + 1], boxes[at + 2] as NodeIndex];
        const isMarked = node === hover || node === selected;
        const isSame = tree.fn[node] === tree.fn[lead] && to - from > 2;
        if (!isMarked && !isSame) continue;
        context.strokeStyle = node === selected ? "#fff" : scene.colors.text;
        context.lineWidth = isMarked ? 2 : 1;
        const [x, width] = [from + 1, Math.max(to - from - 3, 0.5)];
        context.strokeRect(x, y + 1, width, ROW - 3);
        if (node !== selected) continue;
        context.strokeStyle = "#000";
        context.lineWidth = 1;
        context.strokeRect(x + 1.5, y + 2.5, Math.max(width - 3, 0.5), ROW - 6);
        context.strokeRect(x - 1.5, y - 0.5, width + 3, ROW);
      }
    }
  }

  private nodeAt(event: MouseEvent): NodeIndex {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const fromTop = event.clientY - box.top + this.root.scrollTop;
    const row =
      Math.floor((this.scene?.isIcicle ? fromTop : this.height - fromTop) / ROW) +
      (this.scene?.firstRow ?? 0);
    const boxes = this.boxes[row] ?? [];
    for (let at = 0; at < boxes.length; at += 3)
      if (x >= boxes[at] && x < boxes[at + 1]) return boxes[at + 2] as NodeIndex;
    return NO_NODE;
  }

  select(node: NodeIndex): void {
    this.selected = drawnAs(this.scene?.folds ?? null, node);
    if (node >= 0) this.showRow(this.rowOf(node));
    this.drawMarks();
    this.events.select(this.selected);
  }

  // Where the selected box is on the screen, for a menu opened with a key.
  placeOf(node: NodeIndex): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    const { from, scale } = this.view();
    const { tree } = this.scene!;
    const x = box.left + Math.max(8, Math.min(box.width - 40, (tree.start[node] - from) * scale + 8));
    return { x, y: box.top + Math.max(0, this.rowTop(this.rowOf(node)) - this.root.scrollTop) + ROW };
  }

  // Walks from box to box: away from the root, towards it, or among siblings.
  walk(direction: "out" | "in" | "next" | "previous" | "first" | "last"): void {
    if (!this.scene) return;
    const { tree, folds, focus } = this.scene;
    const node = this.selected;
    if (node < 0) return this.select(focus);
    const last = barAt(folds, node)?.nodes.at(-1) ?? node;
    const parent = tree.parent[node];
    const siblings: NodeIndex[] = [];
    const first = (of: NodeIndex) => (of + 1) as NodeIndex;
    if (parent >= 0)
      for (let at = first(parent); at < tree.end[parent]; at = tree.end[at])
        if (!isWithin(folds, at)) siblings.push(at);
    const place = siblings.indexOf(node);
    const goal = {
      out: tree.end[last] > first(last) ? first(last) : node,
      in: node > 0 ? parent : node,
      next: siblings[place + 1] ?? node,
      previous: siblings[place - 1] ?? node,
      first: siblings[0] ?? node,
      last: siblings.at(-1) ?? node,
    }[direction];
    this.select(goal);
  }

  // The next box a search found after the selected one.
  nextHit(step: 1 | -1): void {
    if (!this.scene) return;
    const { tree, hits, focus } = this.scene;
    if (!hits) return;
    const first = focus;
    const size = tree.end[focus] - first;
    const from = this.selected < first ? first - step : this.selected;
    for (let moved = 1; moved <= size; moved++) {
      const node = (first + ((((from - first + step * moved) % size) + size) % size)) as NodeIndex;
      const fn = tree.fn[node];
      if (fn >= 0 && hits[fn]) return this.select(node);
    }
  }

  // Zooms by a factor at a place between 0 (left) and 1 (right).
  zoomAt(place: number, factor: number): void {
    if (!this.scene) return;
    const { tree, focus } = this.scene;
    const view = this.view();
    const middle = view.from + (view.to - view.from) * place;
    const first = tree.start[focus];
    const last = first + tree.total[focus];
    const from = Math.max(first, middle - (middle - view.from) / factor);
    const to = Math.min(last, middle + (view.to - middle) / factor);
    if (to - from < (last - first) / 1e7) return;
    this.span = to - from >= (last - first) * 0.9999 ? null : { from, to };
    this.schedule();
  }

  pan(share: number): void {
    if (!this.span) return;
    const { tree, focus } = this.scene!;
    const first = tree.start[focus];
    const length = this.span.to - this.span.from;
    const from = Math.max(
      first,
      Math.min(first + tree.total[focus] - length, this.span.from + length * share),
    );
    this.span = { from, to: from + length };
    this.schedule();
  }

  get isPanned(): boolean {
    return this.span !== null;
  }

  resetSpan(): void {
    this.span = null;
    this.schedule();
  }

  private listen(): void {
    const { canvas, events } = this;
    const touches = new Map<number, PointerEvent>();
    let drag: { x: number; y: number; isMoved: boolean } | null = null;
    let press = 0;
    const hoverAt = (event: PointerEvent) => {
      const node = this.nodeAt(event);
      if (node !== this.hover) {
        this.hover = node;
        this.drawMarks();
      }
      canvas.style.cursor = node >= 0 ? "pointer" : "default";
      events.hover(node, event.clientX, event.clientY);
    };
    canvas.addEventListener("pointerdown", (event) => {
      touches.set(event.pointerId, event);
      if (event.button !== 0) return;
      drag = { x: event.clientX, y: event.clientY, isMoved: false };
      if (event.pointerType === "touch") {
        press = window.setTimeout(() => {
          if (drag && !drag.isMoved) events.menu(this.nodeAt(event), event.clientX, event.clientY);
          drag = null;
        }, 550);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = touches.get(event.pointerId);
      if (touches.size === 2 && before) this.pinch(touches, event);
      if (before) touches.set(event.pointerId, event);
      if (drag && touches.size === 1) {
        const moved = event.clientX - drag.x;
        if (Math.abs(moved) > 4 || Math.abs(event.clientY - drag.y) > 4) drag.isMoved = true;
        if (drag.isMoved) {
          canvas.setPointerCapture(event.pointerId);
          this.pan((drag.x - event.clientX) / this.root.clientWidth);
          this.root.scrollTop += drag.y - event.clientY;
          drag.x = event.clientX;
          drag.y = event.clientY;
          events.hover(NO_NODE, 0, 0);
          return;
        }
      }
      if (event.pointerType !== "touch") hoverAt(event);
    });
    const release = (event: PointerEvent) => {
      clearTimeout(press);
      touches.delete(event.pointerId);
    };
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerup", (event) => {
      release(event);
      const wasDrag = drag?.isMoved ?? true;
      drag = null;
      if (wasDrag || event.button !== 0) return;
      const node = this.nodeAt(event);
      if (node < 0) return;
      if (event.ctrlKey || event.metaKey) events.drop(node);
      else events.zoom(node);
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = NO_NODE;
      events.hover(NO_NODE, 0, 0);
      this.drawMarks();
    });
    canvas.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      const node = this.nodeAt(event);
      if (node >= 0) events.menu(node, event.clientX, event.clientY);
    });
    this.root.addEventListener(
      "wheel",
      (event) => {
        if (event.ctrlKey || event.metaKey) {
          event.preventDefault();
          const box = canvas.getBoundingClientRect();
          this.zoomAt((event.clientX - box.left) / box.width, Math.exp(-event.deltaY * 0.004));
        } else if (event.deltaX !== 0 && this.span) {
          event.preventDefault();
          this.pan(event.deltaX / this.root.clientWidth);
        }
      },
      { passive: false },
    );
  }

  private pinch(touches: Map<number, PointerEvent>, event: PointerEvent): void {
    const other = [...touches.values()].find((touch) => touch.pointerId !== event.pointerId)!;
    const before = touches.get(event.pointerId)!;
    const gap = (touch: PointerEvent) =>
      Math.hypot(touch.clientX - other.clientX, touch.clientY - other.clientY);
    if (gap(before) < 1) return;
    const box = this.canvas.getBoundingClientRect();
    this.zoomAt(((event.clientX + other.clientX) / 2 - box.left) / box.width, gap(event) / gap(before));
  }

  // What is drawn now, for saving as a picture.
  picture(): {
    boxes: {
      row: number;
      from: number;
      to: number;
      node: NodeIndex;
      fill: string;
      ink: string;
      bar: Bar | null;
    }[];
    canvas: HTMLCanvasElement;
    height: number;
    tree: Tree;
  } {
    const boxes = this.boxes.flatMap((row, depth) => {
      const made = [];
      for (let at = 0; at < (row?.length ?? 0); at += 3) {
        const node = row[at + 2] as NodeIndex;
        const fill = this.fill(node, false);
        made.push({
          row: depth,
          from: row[at],
          to: row[at + 1],
          node,
          fill: cssPixel(fill),
          ink: inkOn(fill),
          bar: barAt(this.scene!.folds, node),
        });
      }
      return made;
    });
    return { boxes, canvas: this.canvas, height: this.height, tree: this.scene!.tree };
  }
}
