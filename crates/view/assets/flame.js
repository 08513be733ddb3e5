// The flame graph: a canvas of the size of what is visible, drawn again whenever that changes, and
// one above it for the marks that follow the pointer.

const ROW = 18;
const NARROWEST = 1; // boxes narrower than this many pixels are drawn as one grey piece
const HIT_FILL = "#e020e0";

// Gives a canvas the size of what is visible, in the screen's own pixels.
function fit(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [pixelsAcross, pixelsDown] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width === pixelsAcross && canvas.height === pixelsDown) return;
  canvas.width = pixelsAcross;
  canvas.height = pixelsDown;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
}

class Flame {
  // `shown` says what to draw: { profile, tree, focus, hits, hover, selected, isIcicle }.
  constructor(scroller, spacer, canvas, marks, shown) {
    Object.assign(this, { scroller, spacer, canvas, marks, shown });
    this.context = canvas.getContext("2d");
    this.boxes = []; // by row: [x, width, node, x, width, node, …] as drawn last
    this.widths = new Map(); // measured texts
    this.isWaiting = false;
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    scroller.addEventListener("scroll", () => this.schedule());
    this.dark.addEventListener("change", () => this.schedule());
    new ResizeObserver(() => this.resize()).observe(scroller);
  }

  schedule() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      this.draw();
    });
  }

  // Makes room for every row of the focused part and shows its base.
  resize() {
    const { tree, focus } = this.shown;
    if (!tree) return;
    let deepest = tree.depth[focus];
    for (let node = focus; node < tree.end[focus]; node++) deepest = Math.max(deepest, tree.depth[node]);
    this.height = Math.max((deepest + 1) * ROW, this.scroller.clientHeight);
    this.spacer.style.height = `${this.height}px`;
    this.showRow(tree.depth[focus]);
    this.schedule();
  }

  rowTop(row) {
    return this.shown.isIcicle ? row * ROW : this.height - (row + 1) * ROW;
  }

  // Scrolls as little as needed to have `row` in sight, near the base's side.
  showRow(row) {
    const { scroller } = this;
    const top = this.rowTop(row);
    const margin = Math.min(3 * ROW, scroller.clientHeight / 3);
    const isBelow = top + ROW + margin > scroller.scrollTop + scroller.clientHeight;
    if (top - margin < scroller.scrollTop) scroller.scrollTop = top - margin;
    else if (isBelow) scroller.scrollTop = top + ROW + margin - scroller.clientHeight;
  }

  draw() {
    const { context } = this;
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    if (!this.shown.tree || !width || !height) return;
    for (const canvas of [this.canvas, this.marks]) fit(canvas, width, height);
    const style = getComputedStyle(document.body);
    this.font = style.fontFamily;
    this.colors = {
      back: style.getPropertyValue("--back").trim(),
      rest: style.getPropertyValue("--rest").trim(),
      mark: style.getPropertyValue("--text").trim(),
    };
    context.fillStyle = this.colors.back;
    context.fillRect(0, 0, width, height);
    context.font = `12px ${this.font}`;
    context.textBaseline = "middle";
    this.boxes = [];
    this.drawAncestors(width);
    this.drawSubtree(width);
    this.drawMarks();
  }

  // Outlines the box under the pointer, the selected one, and others of the same function.
  drawMarks() {
    const { tree, hover, selected } = this.shown;
    const context = this.marks.getContext("2d");
    context.clearRect(0, 0, this.marks.width, this.marks.height);
    if (hover < 0 && selected < 0) return;
    context.strokeStyle = this.colors.mark;
    for (const [row, boxes] of this.boxes.entries()) {
      const y = this.rowTop(row) - this.scroller.scrollTop;
      for (let at = 0; at < (boxes?.length ?? 0); at += 3) {
        const [x, width, node] = [boxes[at], boxes[at + 1], boxes[at + 2]];
        const isMarked = node === hover || node === selected;
        const isSame = hover >= 0 && tree.fn[node] === tree.fn[hover] && width > 2;
        if (!isMarked && !isSame) continue;
        context.globalAlpha = isMarked ? 1 : 0.6;
        context.lineWidth = node === selected ? 2 : 1;
        context.strokeRect(x + 0.5, y + 0.5, Math.max(width - 2, 0.5), ROW - 2);
      }
    }
  }

  drawAncestors(width) {
    const { tree, focus } = this.shown;
    for (let node = tree.parent[focus]; node >= 0; node = tree.parent[node]) {
      this.drawBox(node, 0, width, this.dark.matches ? 0.35 : 0.5);
    }
  }

  // Walks the focused part in preorder. The first box that is too narrow ends its row of
  // siblings, because the heaviest come first.
  drawSubtree(width) {
    const { tree, focus } = this.shown;
    const scale = tree.total[focus] > 0 ? width / tree.total[focus] : 0;
    const first = tree.start[focus];
    for (let node = focus; node < tree.end[focus];) {
      const x = (tree.start[node] - first) * scale;
      const boxWidth = tree.total[node] * scale;
      if (boxWidth < NARROWEST && node !== focus) {
        const below = tree.parent[node];
        const restEnd = tree.start[below] + tree.total[below] - tree.self[below];
        this.drawRest(tree.depth[node], x, (restEnd - first) * scale - x);
        node = tree.end[below];
        continue;
      }
      this.drawBox(node, x, boxWidth, 1);
      const isOutOfSight = !this.shown.isIcicle
        ? this.rowTop(tree.depth[node]) + ROW < this.scroller.scrollTop
        : this.rowTop(tree.depth[node]) > this.scroller.scrollTop + this.scroller.clientHeight;
      node = isOutOfSight ? tree.end[node] : node + 1;
    }
  }

  // Many boxes too narrow to draw.
  drawRest(row, x, width) {
    if (width < 0.5) return;
    const { context } = this;
    context.fillStyle = this.colors.rest;
    context.fillRect(x, this.rowTop(row) - this.scroller.scrollTop, Math.max(width - 0.5, 0.5), ROW - 1);
  }

  drawBox(node, x, width, strength) {
    const { context, shown } = this;
    const { profile, tree } = shown;
    const y = this.rowTop(tree.depth[node]) - this.scroller.scrollTop;
    if (y + ROW < 0 || y > this.scroller.clientHeight) return;
    (this.boxes[tree.depth[node]] ??= []).push(x, width, node);
    const fn = tree.fn[node];
    const isHit = shown.hits && fn >= 0 && shown.hits[fn];
    const isFaded = shown.hits && !isHit;
    context.globalAlpha = isFaded ? 0.35 : strength;
    context.fillStyle = isHit ? HIT_FILL : shadeOf(fn === ALL ? UNKNOWN : categoryOf(profile, fn), tree.tier[node]);
    const inner = Math.max(width - (width > 3 ? 1 : 0.25), 0.5);
    context.fillRect(x, y, inner, ROW - 1);
    if (width > 22) {
      context.globalAlpha = isFaded ? 0.75 : strength < 1 ? 0.9 : 1;
      const isDarkBack = (isFaded || strength < 1) && this.dark.matches;
      context.fillStyle = isDarkBack ? this.colors.mark : "#111";
      this.drawLabel(node, x + 4, y + ROW / 2, inner - 7);
    }
    context.globalAlpha = 1;
  }

  // The name, and the place after it when there is room; a name too long keeps its end, where
  // C++ names differ.
  drawLabel(node, x, y, room) {
    const { context, shown } = this;
    const fn = shown.tree.fn[node];
    const name = shortName(nameOf(shown.profile, fn)).slice(0, 400);
    const nameWidth = this.measure(name);
    if (nameWidth <= room) {
      context.fillText(name, x, y);
      const place = shortPlace(shown.profile, fn);
      if (place && place.length < 200 && nameWidth + 8 + this.measure(place) <= room) {
        context.globalAlpha *= 0.62;
        context.fillText(place, x + nameWidth + 8, y);
      }
      return;
    }
    const end = name.slice(name.lastIndexOf("::") + 2);
    const telling = name === "(anonymous)" ? shortPlace(shown.profile, fn) || name
      : name.includes("::") && end ? `…${end}` : name;
    const text = this.measure(telling) <= room ? telling : this.cut(telling.replace(/^…/, ""), room);
    if (text) context.fillText(text, x, y);
  }

  // As much of the start of `text` as fits, at least two letters.
  cut(text, room) {
    const letters = [...text];
    let fits = 0;
    let tooLong = letters.length;
    while (fits + 1 < tooLong) {
      const middle = (fits + tooLong) >> 1;
      if (this.context.measureText(`${letters.slice(0, middle).join("")}…`).width <= room) fits = middle;
      else tooLong = middle;
    }
    return fits < 2 ? "" : `${letters.slice(0, fits).join("")}…`;
  }

  measure(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      if (this.widths.size > 50000) this.widths.clear();
      this.widths.set(text, width);
    }
    return width;
  }

  // The node at a place of the canvas, or -1.
  nodeAt(x, y) {
    const fromTop = y + this.scroller.scrollTop;
    const row = Math.floor((this.shown.isIcicle ? fromTop : this.height - fromTop) / ROW);
    const boxes = this.boxes[row] ?? [];
    for (let at = 0; at < boxes.length; at += 3) {
      if (x >= boxes[at] && x < boxes[at] + boxes[at + 1]) return boxes[at + 2];
    }
    return -1;
  }
}
