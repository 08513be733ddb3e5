// The rules that the page and Rust both apply, on vectors that Rust wrote: tools/viewer.sh checks
// that they are current through `xtask viewer-tables --check`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { packageFor } from "../src/model/packages";
import { shapeOf } from "../src/model/shape";
import { CATEGORY_LABELS, Category, SHARE_OF_CATEGORY } from "../src/model/tables";
import { withoutCategories } from "../src/model/transforms";
import { marksOf, ownWeights, type Shares, sharesOf, treeOf } from "../src/model/tree";
import { shownShares } from "../src/page/summary";
import { count, percent, weightText } from "../src/page/words";
import { profileOf } from "./naive";
import vectors from "./vectors.json";

test("numbers read as in Rust's reports", () => {
  for (const [value, text] of vectors.count) assert.equal(count(value as number), text);
  for (const [part, whole, text] of vectors.percent)
    assert.equal(percent(part as number, whole as number), text);
  for (const [value, unit, text] of vectors.weight)
    assert.equal(weightText(value as number, { name: "", unit: unit as "bytes", rateHz: 0 }), text);
  for (const [value, name, text] of vectors.occurrences)
    assert.equal(weightText(value as number, { name: name as string, unit: "events", rateHz: 0 }), text);
});

test("every function has the owner that Rust gives it", () => {
  for (const [category, name, file, kind, owner] of vectors.package) {
    const found = packageFor(category as number, file as string, () => name as string);
    assert.deepEqual(found, { kind, name: owner }, JSON.stringify([category, name, file]));
  }
});

// What the samples of one stack are, by the categories of its frames.
function sharesOfPath(path: number[], hidden: number[] = []): Shares {
  const profile = profileOf(path);
  const own = ownWeights(profile, profile.samples, { threads: null, range: null });
  const shape = withoutCategories(profile, shapeOf(profile, true), new Set(hidden));
  return sharesOf(
    profile,
    treeOf(shape, marksOf(profile, shape, own), own, null, profile.event, "heavy", new Int32Array(0)),
  );
}

test("samples count as what Rust counts them as", () => {
  for (const [path, key] of vectors.share) {
    const shares = sharesOfPath(path as number[]);
    assert.deepEqual(
      Object.entries(shares).filter(([, weight]) => weight > 0),
      [[key, 1]],
      JSON.stringify(path),
    );
  }
  assert.equal(SHARE_OF_CATEGORY.length, CATEGORY_LABELS.length);
});

test("code of which no frame is shown is other code, not unknown code", () => {
  const shares = sharesOfPath([Category.Native, Category.Kernel], [Category.Native, Category.Kernel]);
  assert.deepEqual(
    shownShares(shares).map(({ text }) => text),
    ["other code 100 %"],
  );
  assert.deepEqual(
    shownShares(sharesOfPath([Category.Unknown])).map(({ text }) => text),
    ["unknown 100 %"],
  );
});
