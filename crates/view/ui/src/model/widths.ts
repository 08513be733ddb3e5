// How wide boxes are where two sides are compared: as on either side, on both, or as much as they differ.

import type { NodeIndex } from "./indexes";
import { ROOT, type Tree } from "./tree";

export const WIDTHS = ["after", "before", "both", "change"] as const;
export type Widths = (typeof WIDTHS)[number];

// The same tree with other widths; nodes keep their numbers. `scale` is what a weight of the earlier side is
// in weights of the later. Where `changed` is given, only nodes that are marked in it have a width.
export function withWidths(tree: Tree, widths: Widths, scale: number, changed: Uint8Array | null): Tree {
  const { size, baseSelf } = tree;
  const self = new Float64Array(size);
  for (let node = ROOT; node < size; node++) {
    if (changed && !changed[node]) continue;
    const [now, before] = [tree.self[node], (baseSelf?.[node] ?? 0) * scale];
    self[node] =
      widths === "after"
        ? now
        : widths === "before"
          ? before
          : widths === "both"
            ? now + before
            : Math.abs(now - before);
  }
  const total = self.slice();
  for (let node = (size - 1) as NodeIndex; node > 0; node--) total[tree.parent[node]] += total[node];
  const start = new Float64Array(size);
  const next = new Float64Array(size);
  for (let node = 1 as NodeIndex; node < size; node++) {
    const below = tree.parent[node];
    start[node] = next[node] = next[below];
    next[below] += total[node];
  }
  return { ...tree, self, total, start };
}
