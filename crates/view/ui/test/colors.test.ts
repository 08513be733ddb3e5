// Colours are told apart with every kind of colour vision, texts on them can be read, and what takes
// most of a picture is calm.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { FunctionIndex } from "../src/model/indexes";
import { CATEGORY_LABELS, Category, TIER_LABELS, Tier } from "../src/model/tables";
import {
  categoryFill,
  cssPixel,
  diffFill,
  inkOn,
  Paint,
  type Palette,
  selfFill,
  selfPixels,
} from "../src/page/colors";
import { profileOf } from "./naive";

type Triple = [number, number, number];

// Machado, Oliveira and Fernandes (2009), full severity, for linear RGB.
const VISIONS: Record<string, [Triple, Triple, Triple]> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const dot = (left: Triple, right: Triple): number =>
  left[0] * right[0] + left[1] * right[1] + left[2] * right[2];

function linear(fill: string): Triple {
  const channels = fill.match(/\d+/g)!.map((text) => Number(text) / 255);
  return channels.map((value) =>
    value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4,
  ) as Triple;
}

const LUMINANCE: Triple = [0.2126729, 0.7151522, 0.072175];

// CIE L*a*b*, white of daylight.
function lab(color: Triple): Triple {
  const root = (value: number) => (value > 0.008856 ? Math.cbrt(value) : 7.787 * value + 16 / 116);
  const x = root(dot([0.4124564, 0.3575761, 0.1804375], color) / 0.95047);
  const y = root(dot(LUMINANCE, color));
  const z = root(dot([0.0193339, 0.119192, 0.9503041], color) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function seen(fill: string, vision: string): Triple {
  const color = linear(fill);
  return lab(VISIONS[vision].map((row) => Math.max(0, Math.min(1, dot(row, color)))) as Triple);
}

const distance = (left: Triple, right: Triple): number =>
  Math.hypot(...left.map((value, at) => value - right[at]));

// Stubs and trampolines are shown only where they are asked for.
const SHOWN = CATEGORY_LABELS.map((_, at) => at).filter((at) => at !== Category.Internal);
const BY_CATEGORY: [palette: Palette, isDark: boolean, title: string][] = [
  ["category", false, "on a light page"],
  ["category", true, "on a dark page"],
  ["okabe", false, "Okabe and Ito"],
];
const luminance = (fill: string): number => dot(LUMINANCE, linear(fill));
const TIERS = TIER_LABELS.map((_, tier) => tier);

// Of two luminances, as WCAG has it.
function contrast(one: number, other: number): number {
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}

// Of a colour with the text that is written on it.
function contrastWithInk(fill: string): number {
  const [red, green, blue] = fill.match(/\d+/g)!.map(Number);
  const hex = inkOn((blue << 16) | (green << 8) | red).slice(1);
  const letters = hex.length === 3 ? [...hex].map((each) => each + each) : hex.match(/../g)!;
  return contrast(luminance(letters.map((each) => Number.parseInt(each, 16)).join(" ")), luminance(fill));
}

for (const [palette, isDark, title] of BY_CATEGORY) {
  const fillOf = (category: Category, tier = 0) => categoryFill(palette, category, isDark, tier);

  test(`categories are told apart with every kind of colour vision: ${title}`, () => {
    for (const vision of Object.keys(VISIONS)) {
      for (const left of SHOWN) {
        for (const right of SHOWN.filter((other) => other > left)) {
          const apart = distance(seen(fillOf(left), vision), seen(fillOf(right), vision));
          assert.ok(apart > 12, `${vision}: ${CATEGORY_LABELS[left]}, ${CATEGORY_LABELS[right]}: ${apart}`);
        }
      }
    }
  });

  test(`names can be read on every category and tier: ${title}`, () => {
    for (const category of SHOWN)
      for (const tier of TIERS) {
        const enough = contrastWithInk(fillOf(category, tier));
        assert.ok(enough > 4.5, `${CATEGORY_LABELS[category]} ${TIER_LABELS[tier]}: ${enough}`);
      }
  });

  test(`native code does not shout: ${title}`, () => {
    const colorfulness = (category: Category) => {
      const [, a, b] = seen(fillOf(category), "normal");
      return Math.hypot(a, b);
    };
    const ofJavaScript = [Category.App, Category.Dependency, Category.NodeCore].map(colorfulness);
    assert.ok(colorfulness(Category.Native) < 0.7 * Math.min(...ofJavaScript));
  });
}

const DARK_PAGE = "rgb(22 24 28)";

test("boxes of a dark page are dark, and what was compiled less is nearer to the page", () => {
  for (const category of SHOWN) assert.ok(luminance(categoryFill("category", category, true)) < 0.17);
  const ofApp = (tier: Tier) => categoryFill("category", Category.App, true, tier);
  const apart = (fill: string) => contrast(luminance(fill), luminance(DARK_PAGE));
  const tiers = [Tier.Interpreted, Tier.Baseline, Tier.Maglev, Tier.Optimized].map((tier) =>
    apart(ofApp(tier)),
  );
  assert.deepEqual(
    tiers,
    tiers.toSorted((left, right) => left - right),
  );
  assert.ok(tiers[0] > 1.5, String(tiers[0]));
});

for (const isDark of [false, true])
  test(`more self time is farther from the page, and can be read: ${isDark ? "dark" : "light"}`, () => {
    const page = luminance(isDark ? DARK_PAGE : "rgb(255 255 255)");
    const fills = [...selfPixels(Float64Array.of(0, 1, 4, 9, 16), isDark)].map(cssPixel);
    const apart = fills.map((fill) => contrast(luminance(fill), page));
    assert.deepEqual(
      apart,
      apart.toSorted((left, right) => left - right),
    );
    for (const fill of fills) assert.ok(contrastWithInk(fill) > 4.2, `${fill}: ${contrastWithInk(fill)}`);
    assert.equal(fills[4], selfFill(1, isDark));
    assert.equal(fills[0], selfFill(0, isDark));
  });

for (const isDark of [false, true])
  test(`less, the same and more are told apart in a comparison: ${isDark ? "dark" : "light"}`, () => {
    const fills = [-1, -0.5, 0, 0.5, 1].map((change) => diffFill(change, isDark));
    for (const fill of fills) assert.ok(contrastWithInk(fill) > 4.5, `${fill}: ${contrastWithInk(fill)}`);
    for (const vision of Object.keys(VISIONS))
      for (let at = 1; at < fills.length; at++) {
        const apart = distance(seen(fills[at], vision), seen(fills[at - 1], vision));
        assert.ok(apart > 12, `${vision}: ${fills[at - 1]}, ${fills[at]}: ${apart}`);
      }
  });

test("colours made of names can be read on both pages", () => {
  const names = { ...profileOf([Category.App]), packages: Array.from({ length: 500 }, (_, at) => `p${at}`) };
  for (const isDark of [false, true])
    for (const palette of ["package", "warm"] as Palette[]) {
      const paint = new Paint(names, palette, 0, isDark ? "#16181c" : "#ffffff", isDark);
      for (let fn = 0; fn < 501; fn++)
        for (const tier of TIERS) {
          const enough = contrastWithInk(cssPixel(paint.pixel(fn as FunctionIndex, tier)));
          assert.ok(enough > 4, `${palette} ${isDark} ${fn} ${tier}: ${enough}`);
        }
    }
});
