// Trees, transforms, ranges, diffs and tables against the naive way, on random profiles.

import assert from "node:assert/strict";
import { test } from "node:test";
import { combined } from "../src/model/combine";
import { calleesOf, callersOf, fromLeaf, functionWeights } from "../src/model/derived";
import type { FunctionIndex, NodeIndex, PackageIndex, StackIndex, ThreadIndex } from "../src/model/indexes";
import { FIRST_EVENT, type Profile, packageBox, selected } from "../src/model/profile";
import { timeOf, weightOf } from "../src/model/samples";
import { findFunctions, matchedWeight } from "../src/model/search";
import { type Shape, shapeOf } from "../src/model/shape";
import { CATEGORY_LABELS, Category } from "../src/model/tables";
import {
  decodeTransforms,
  encodeTransforms,
  type Transform,
  transformed,
  withoutCategories,
} from "../src/model/transforms";
import { type Choice, marksOf, ownWeights, pathTo, ROOT, type Tree, treeOf } from "../src/model/tree";
import { type NaiveNode, naiveTree, pathOf, random, randomProfile, recordingOf } from "./naive";

const ALL: Choice = { threads: null, range: null };
const NO_NAMES = new Int32Array(0);

function treeFrom(profile: Profile, shape: Shape, choice: Choice): Tree {
  const own = ownWeights(profile, profile.samples, choice);
  return treeOf(shape, marksOf(profile, shape, own), own, null, profile.event, "heavy", NO_NAMES);
}

// Both trees as lines "path: total, self", sorted; nodes without weight are left out.
function lines(tree: Tree): string[] {
  const found: string[] = [];
  for (let node = ROOT; node < tree.size; node++) {
    found.push(`${pathTo(tree, node).join(">")}: ${tree.total[node]}, ${tree.self[node]}`);
  }
  return found.sort();
}

function naiveLines(root: NaiveNode): string[] {
  const found: string[] = [];
  const visit = (node: NaiveNode, path: FunctionIndex[]) => {
    if (node.total > 0 || path.length === 0) found.push(`${path.join(">")}: ${node.total}, ${node.self}`);
    for (const [fn, child] of node.children) visit(child, [...path, fn]);
  };
  visit(root, []);
  return found.sort();
}

function checkShape(tree: Tree): void {
  for (let node = 1 as NodeIndex; node < tree.size; node++) {
    const parent = tree.parent[node];
    assert.ok(parent < node && tree.end[node] <= tree.end[parent] && tree.end[node] > node);
    assert.equal(tree.depth[node], tree.depth[parent] + 1);
    assert.ok(tree.start[node] >= tree.start[parent]);
    assert.ok(tree.start[node] + tree.total[node] <= tree.start[parent] + tree.total[parent] + 1e-6);
    const sibling = tree.end[node];
    if (sibling < tree.end[parent])
      assert.ok(tree.total[sibling] <= tree.total[node], "the heaviest come first");
  }
}

const SEEDS = Array.from({ length: 150 }, (_, at) => at + 1);

test("a tree counts every sample along its path", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const tree = treeFrom(profile, shapeOf(profile, true), ALL);
    checkShape(tree);
    assert.deepEqual(lines(tree), naiveLines(naiveTree(profile, () => true)));
  }
});

test("internal frames are left out unless asked for", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const isShown = (fn: FunctionIndex) => fn < 0 || profile.functions.category[fn] !== Category.Internal;
    assert.deepEqual(
      lines(treeFrom(profile, shapeOf(profile, false), ALL)),
      naiveLines(
        naiveTree(
          profile,
          () => true,
          (path) => path.filter(isShown),
        ),
      ),
    );
  }
});

test("ranges and threads choose samples", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const { samples } = profile;
    const next = random(seed + 7);
    const from = next(50_000);
    const range = { from, to: from + next(60_000) };
    const threads = new Set([next(3), next(3)] as ThreadIndex[]);
    const tree = treeFrom(profile, shapeOf(profile, true), { range, threads });
    assert.deepEqual(
      lines(tree),
      naiveLines(
        naiveTree(
          profile,
          (row) =>
            timeOf(samples, row) >= range.from &&
            timeOf(samples, row) < range.to &&
            threads.has(samples.thread[row]),
        ),
      ),
    );
  }
});

// What each step does to one path.
function rewritten(profile: Profile, path: FunctionIndex[], step: Transform): FunctionIndex[] | null {
  switch (step.kind) {
    case "merge":
      return path.filter((fn) => fn !== step.fn);
    case "drop":
      return path.includes(step.fn) ? null : path;
    case "focus":
      return path.includes(step.fn) ? path.slice(path.indexOf(step.fn)) : null;
    case "subtree": {
      const isUnder = step.path.every((fn, at) => path[at] === fn) && step.path.length > 0;
      return isUnder ? path.slice(step.path.length - 1) : null;
    }
    case "recursion": {
      const [first, last] = [path.indexOf(step.fn), path.lastIndexOf(step.fn)];
      return first < 0 ? path : [...path.slice(0, first), ...path.slice(last)];
    }
    case "package": {
      const box = packageBox(profile, step.package);
      const boxed = path.map((fn) =>
        fn >= 0 && fn < profile.packageOf.length && profile.packageOf[fn] === step.package ? box : fn,
      );
      return boxed.filter((fn, at) => fn !== box || boxed[at - 1] !== box);
    }
  }
}

function randomStep(profile: Profile, next: (below: number) => number): Transform {
  const fn = next(profile.functions.name.length) as FunctionIndex;
  const kinds: Transform[] = [
    { kind: "merge", fn },
    { kind: "drop", fn },
    { kind: "focus", fn },
    { kind: "recursion", fn },
    { kind: "package", package: next(profile.packages.length) as PackageIndex },
    { kind: "subtree", path: pathOf(profile, next(profile.stacks.parent.length) as StackIndex).slice(0, 2) },
  ];
  return kinds[next(kinds.length)];
}

test("steps do the same to a tree as to each path, one after the other", () => {
  for (const seed of [...SEEDS, ...SEEDS.map((each) => each + 1000)]) {
    const profile = randomProfile(seed);
    const next = random(seed + 99);
    const steps = Array.from({ length: 1 + next(3) }, () => randomStep(profile, next));
    let shape = shapeOf(profile, true);
    for (const step of steps) shape = transformed(profile, shape, step);
    const naive = naiveTree(
      profile,
      () => true,
      (path) => {
        let shown: FunctionIndex[] | null = path;
        for (const step of steps) shown = shown && rewritten(profile, shown, step);
        return shown;
      },
    );
    assert.deepEqual(lines(treeFrom(profile, shape, ALL)), naiveLines(naive), JSON.stringify(steps));
    assert.deepEqual(decodeTransforms(encodeTransforms(steps)), steps);
  }
});

test("hidden categories give their time to their callers, and idle samples go", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const next = random(seed + 3);
    const hidden = new Set<number>([
      next(CATEGORY_LABELS.length),
      next(CATEGORY_LABELS.length),
      Category.Idle,
    ]);
    const kind = (fn: FunctionIndex) => (fn < 0 ? -1 : profile.functions.category[fn]);
    const shape = withoutCategories(profile, shapeOf(profile, true), hidden);
    assert.deepEqual(
      lines(treeFrom(profile, shape, ALL)),
      naiveLines(
        naiveTree(
          profile,
          () => true,
          (path) =>
            path.some((fn) => kind(fn) === Category.Idle) ? null : path.filter((fn) => !hidden.has(kind(fn))),
        ),
      ),
    );
  }
});

test("from the leaf, the paths are turned around", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const tree = fromLeaf(treeFrom(profile, shapeOf(profile, true), ALL), "heavy", NO_NAMES);
    checkShape(tree);
    assert.deepEqual(
      lines(tree),
      naiveLines(
        naiveTree(
          profile,
          () => true,
          (path) => [...path].reverse(),
        ),
      ),
    );
  }
});

test("a sandwich has every call of its function", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const fn = random(seed + 5)(profile.functions.name.length) as FunctionIndex;
    const tree = treeFrom(profile, shapeOf(profile, true), ALL);
    const callees = naiveTree(
      profile,
      () => true,
      (path) => (path.includes(fn) ? path.slice(path.indexOf(fn)) : null),
    );
    assert.deepEqual(lines(calleesOf(tree, fn, "heavy", NO_NAMES)), naiveLines(callees));
    const callers = naiveTree(
      profile,
      () => true,
      (path) => (path.includes(fn) ? path.slice(0, path.indexOf(fn) + 1).reverse() : null),
    );
    assert.deepEqual(lines(callersOf(tree, fn, "heavy", NO_NAMES)), naiveLines(callers));
  }
});

test("the table counts a function once a sample", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const weights = functionWeights(profile, treeFrom(profile, shapeOf(profile, true), ALL));
    for (let fn = 0 as FunctionIndex; fn < profile.functions.name.length; fn++) {
      let [self, total] = [0, 0];
      for (let row = 0; row < profile.samples.time.length; row++) {
        if (profile.samples.stack[row] < 0) continue;
        const path = pathOf(profile, profile.samples.stack[row]);
        if (path.includes(fn)) total += weightOf(profile.samples, row);
        if (path.at(-1) === fn) self += weightOf(profile.samples, row);
      }
      assert.deepEqual([weights.self[fn], weights.total[fn]], [self, total]);
    }
  }
});

test("a search counts each sample once", () => {
  for (const seed of SEEDS) {
    const profile = randomProfile(seed);
    const hits = findFunctions(profile, { text: "f[13]", isRegExp: true, isExact: false });
    const tree = treeFrom(profile, shapeOf(profile, true), ALL);
    let expected = 0;
    for (let row = 0; row < profile.samples.time.length; row++) {
      const { stack } = profile.samples;
      if (stack[row] >= 0 && pathOf(profile, stack[row]).some((fn) => hits[fn]))
        expected += weightOf(profile.samples, row);
    }
    assert.equal(matchedWeight(tree, hits, ROOT), expected);
  }
});

test("a base is counted along the same paths", () => {
  for (const seed of SEEDS) {
    const [now, before] = [randomProfile(seed), randomProfile(seed + 5000)];
    const both = selected(combined(recordingOf(now), recordingOf(before)), FIRST_EVENT);
    const own = ownWeights(both, both.samples, ALL);
    const base = ownWeights(both, both.base!, ALL);
    const shape = shapeOf(both, true);
    const tree = treeOf(shape, marksOf(both, shape, own), own, base, both.event, "heavy", NO_NAMES);
    const name = (profile: Profile, fn: FunctionIndex) =>
      fn < 0
        ? String(fn)
        : `${profile.texts.get(profile.functions.name[fn])} ${profile.texts.get(profile.functions.file[fn])}`;
    const named = (profile: Profile, root: NaiveNode) => {
      const found = new Map<string, number>();
      const visit = (node: NaiveNode, path: string) => {
        found.set(path, (found.get(path) ?? 0) + node.total);
        for (const [fn, child] of node.children) visit(child, `${path}>${name(profile, fn)}`);
      };
      visit(root, "");
      return found;
    };
    const [nowTotals, beforeTotals] = [
      named(
        now,
        naiveTree(now, () => true),
      ),
      named(
        before,
        naiveTree(before, () => true),
      ),
    ];
    const seen = [new Map<string, number>(), new Map<string, number>()];
    for (let node = ROOT; node < tree.size; node++) {
      const path = pathTo(tree, node)
        .map((fn) => `>${name(both, fn)}`)
        .join("");
      seen[0].set(path, (seen[0].get(path) ?? 0) + tree.total[node]);
      seen[1].set(path, (seen[1].get(path) ?? 0) + tree.baseTotal![node]);
    }
    for (const [path, total] of nowTotals) assert.equal(seen[0].get(path) ?? 0, total);
    for (const [path, total] of beforeTotals) assert.equal(seen[1].get(path) ?? 0, total);
  }
});
