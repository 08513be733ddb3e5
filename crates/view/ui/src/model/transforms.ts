// What a reader does to the tree, one step after the other. A step never changes the recording:
// it takes the paths of functions and returns others, to which the same samples are counted.

import {
  type Column,
  column,
  type FunctionIndex,
  type PackageIndex,
  type PathIndex,
  type StackIndex,
} from "./indexes";
import { functionCount, type Names, packageBox } from "./profile";
import { moved, NO_PATH, Paths, ROOT_PATH, type Shape } from "./shape";
import { CATEGORY_LABELS, Category } from "./tables";

export type Transform =
  | { kind: "focus"; fn: FunctionIndex } // only what runs under this function, which becomes the root
  | { kind: "subtree"; path: FunctionIndex[] } // the same for one path from the root
  | { kind: "merge"; fn: FunctionIndex } // the function's time goes to its callers
  | { kind: "drop"; fn: FunctionIndex } // samples with this function are left out
  | { kind: "recursion"; fn: FunctionIndex } // calls of this function inside itself become one
  | { kind: "package"; package: PackageIndex }; // neighbouring frames of the package become one box

const LETTERS = { focus: "f", subtree: "s", merge: "m", drop: "x", recursion: "r", package: "p" } as const;

export function encodeTransforms(transforms: Transform[]): string {
  const number = (transform: Transform) =>
    transform.kind === "subtree"
      ? transform.path.join(".")
      : transform.kind === "package"
        ? transform.package
        : transform.fn;
  return transforms.map((transform) => `${LETTERS[transform.kind]}${number(transform)}`).join("~");
}

export function decodeTransforms(text: string): Transform[] {
  const transforms: Transform[] = [];
  for (const part of text.split("~")) {
    const numbers = part.slice(1).split(".").map(Number);
    if (!/^[a-z]\d+(\.-?\d+)*$/.test(part)) continue;
    const kind = (Object.keys(LETTERS) as (keyof typeof LETTERS)[]).find((key) => LETTERS[key] === part[0]);
    if (kind === "subtree") transforms.push({ kind, path: numbers as FunctionIndex[] });
    else if (kind === "package") transforms.push({ kind, package: numbers[0] as PackageIndex });
    else if (kind) transforms.push({ kind, fn: numbers[0] as FunctionIndex });
  }
  return transforms;
}

// For each old node the new one, or -1; asked in order, so callers are mapped already.
type Rule = (node: PathIndex, caller: PathIndex, paths: Paths) => PathIndex;

function rewritten(shape: Shape, rule: Rule): Shape {
  const paths = new Paths(shape.size);
  const mapped = column<Column<PathIndex, PathIndex>>(new Int32Array(shape.size));
  for (let node = 1 as PathIndex; node < shape.size; node++)
    mapped[node] = rule(node, mapped[shape.parent[node]], paths);
  return moved(shape, paths, mapped);
}

export function transformed(names: Names, shape: Shape, transform: Transform): Shape {
  const { fn } = shape;
  switch (transform.kind) {
    case "merge":
      return rewritten(shape, (node, caller, paths) =>
        caller < 0 ? NO_PATH : fn[node] === transform.fn ? caller : paths.child(caller, fn[node]),
      );
    case "drop":
      return rewritten(shape, (node, caller, paths) =>
        caller < 0 || fn[node] === transform.fn ? NO_PATH : paths.child(caller, fn[node]),
      );
    case "focus":
      return focused(shape, (node) => fn[node] === transform.fn);
    case "subtree": {
      const wanted = nodeAtPath(shape, transform.path);
      return focused(shape, (node) => node === wanted);
    }
    case "recursion":
      return withoutRecursion(shape, transform.fn);
    case "package":
      return packed(names, shape, transform.package);
  }
}

// Only what is at or under the outermost node that `isWanted`; it stands right above the root.
function focused(shape: Shape, isWanted: (node: PathIndex) => boolean): Shape {
  const isInside = new Uint8Array(shape.size);
  const shown = rewritten(shape, (node, caller, paths) => {
    if (isInside[shape.parent[node]]) {
      isInside[node] = 1;
      return paths.child(caller, shape.fn[node]);
    }
    if (!isWanted(node)) return NO_PATH;
    isInside[node] = 1;
    return paths.child(ROOT_PATH, shape.fn[node]);
  });
  return withoutRoot(shape, shown);
}

// Samples counted to the old root itself are not under any function.
function withoutRoot(old: Shape, shape: Shape): Shape {
  for (let row = 0 as StackIndex; row < old.nodeOf.length; row++)
    if (old.nodeOf[row] === 0) shape.nodeOf[row] = NO_PATH;
  return shape;
}

export function nodeAtPath(shape: Shape, path: FunctionIndex[]): PathIndex {
  let node = ROOT_PATH;
  let depth = 0;
  // Parents come first, so one pass finds every step of the path.
  for (let at = 1 as PathIndex; at < shape.size && depth < path.length; at++) {
    if (shape.parent[at] === node && shape.fn[at] === path[depth]) {
      node = at;
      depth++;
    }
  }
  return depth === path.length ? node : NO_PATH;
}

// Everything between the outermost and the innermost call of `fn` disappears.
function withoutRecursion(shape: Shape, fn: FunctionIndex): Shape {
  // The new node of `fn` above each old node.
  const outermost = column<Column<PathIndex, PathIndex>>(new Int32Array(shape.size).fill(NO_PATH));
  return rewritten(shape, (node, caller, paths) => {
    const above = outermost[shape.parent[node]];
    if (caller < 0) return NO_PATH;
    if (shape.fn[node] === fn && above >= 0) {
      outermost[node] = above;
      return above;
    }
    const made = paths.child(caller, shape.fn[node]);
    outermost[node] = shape.fn[node] === fn ? made : above;
    return made;
  });
}

function packed(names: Names, shape: Shape, wanted: PackageIndex): Shape {
  const box = packageBox(names, wanted);
  return rewritten(shape, (node, caller, paths) => {
    if (caller < 0) return NO_PATH;
    const fn = shape.fn[node];
    if (fn < 0 || fn >= functionCount(names) || names.packageOf[fn] !== wanted)
      return paths.child(caller, fn);
    return caller > 0 && paths.fn[caller] === box ? caller : paths.child(caller, box);
  });
}

// Frames of the hidden categories give their time to their callers; idle samples are left out.
export function withoutCategories(names: Names, shape: Shape, hidden: ReadonlySet<number>): Shape {
  if (hidden.size === 0) return shape;
  const { category } = names.functions;
  const isHidden = new Uint8Array(CATEGORY_LABELS.length);
  for (const key of hidden) isHidden[key] = 1;
  return rewritten(shape, (node, caller, paths) => {
    if (caller < 0) return NO_PATH;
    const fn = shape.fn[node];
    if (fn < 0 || !isHidden[category[fn]]) return paths.child(caller, fn);
    return category[fn] === Category.Idle ? NO_PATH : caller;
  });
}
