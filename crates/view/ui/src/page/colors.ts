// Colours. Hue stands for the category and lightness for the tier, so the tier survives colour blindness.
// What was compiled less fades into the page; on a dark page all boxes are dark, and texts on them light.

import type { FunctionIndex, PackageIndex } from "../model/indexes";
import { categoryOf, functionCount, type Names, nameOf } from "../model/profile";
import { State, type StateKind } from "../model/states";
import { Category } from "../model/tables";

// By category, in the order of the codes.
const FILLS: Record<Palette, string[] | null> = {
  category: [
    "#c4f598",
    "#b79efe",
    "#65c4d3",
    "#809058",
    "#7184b0",
    "#c4778e",
    "#fb8379",
    "#e4ccae", // native code has most of the boxes, so it is the calmest colour
    "#f0a95d",
    "#f0f0f3",
    "#cccccc",
    "#9aa5a0",
  ],
  // Okabe and Ito's colours for what people look for; the others were searched for, so that all are told
  // apart with any kind of colour vision and native code is calm.
  okabe: [
    "#56b4e9",
    "#e69f00",
    "#009e73",
    "#b8f5c0",
    "#767cd3",
    "#cc79a7",
    "#d55e00",
    "#e7b2a6",
    "#b9a86c",
    "#f3f0ef",
    "#c0c5cf",
    "#b8ada2",
  ],
  warm: null,
  package: null,
  self: null,
  state: null,
};
export type Palette = "category" | "okabe" | "warm" | "package" | "self" | "state";
export const PALETTES: [Palette, string][] = [
  ["category", "by category"],
  ["okabe", "by category, Okabe–Ito"],
  ["package", "by package"],
  ["self", "by self time"],
  ["warm", "warm, by name"],
  ["state", "by state"],
];

// What a thread was doing, in the order of the states; waits by what they are for. Boxes and bands have
// dark text or none on them, in both themes.
const STATE_FILLS = ["#5fb98a", "#ef8a62", "#f2cf5b", "#82aee6", "#d6dae0"];
const WAIT_FILLS = ["#82aee6", "#b79be0", "#e39ac4", "#6cc5d6", "#9aa7c7", "#c9b08a"];

export const stateFill = ({ state }: StateKind, waitPlace = 0): string =>
  state === State.Waiting ? WAIT_FILLS[waitPlace % WAIT_FILLS.length] : STATE_FILLS[state];

// On a dark page: no lighter than light text allows, in the hues of the light page. Searched for, too.
const DARK_FILLS = [
  "#467b2c",
  "#5d63b9",
  "#007991",
  "#43552d",
  "#0d4d85",
  "#76345a",
  "#a65550",
  "#53473f",
  "#6c5100",
  "#1a2624",
  "#70676a",
  "#4a5250",
];

// How much of the page is mixed in: the better the compiler, the fuller the colour.
const TIER_FADES = [0, 0.66, 0.44, 0.22, 0];
const DARK_TIER_FADES = [0, 0.45, 0.3, 0.15, 0];
const WHITE: Rgb = [255, 255, 255];
const DARK_BACK = channels("#16181c"); // as the style has it
const DARK_HASHED = 0.55; // how much of a dark page is in colours that are made of names
export const HIT = "#e020e0";

// Less than before, the same, more than before; told apart with any kind of colour vision.
const DIFF_STOPS = [
  ["#3b8ccf", "#a8cdec", "#ececec", "#f7b98c", "#d9601a"],
  ["#4a97d8", "#2c5a85", "#3d4046", "#85502f", "#dd6a26"],
].map((stops) => stops.map(channels));

type Rgb = [number, number, number];

function channels(hex: string): Rgb {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as Rgb;
}

const mix = (from: Rgb, to: Rgb, share: number): Rgb =>
  from.map((value, at) => Math.round(value + (to[at] - value) * share)) as Rgb;

const css = ([red, green, blue]: Rgb): string => `rgb(${red} ${green} ${blue})`;

// As a pixel of ImageData on a little-endian machine, which every browser's is.
const pixel = ([red, green, blue]: Rgb): number => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;

export const packed = (hex: string): number => pixel(channels(hex));

// Okabe and Ito's colours stay as they are known.
const isDimmed = (palette: Palette, isDark: boolean): boolean => isDark && palette !== "okabe";

function baseFill(palette: Palette, category: number, isDark: boolean): Rgb {
  const fills = isDimmed(palette, isDark) ? DARK_FILLS : (FILLS[palette] ?? FILLS.category!);
  return channels(fills[category] ?? fills[Category.Unknown]);
}

function tierFill(base: Rgb, tier: number, isDim: boolean): Rgb {
  return isDim ? mix(base, DARK_BACK, DARK_TIER_FADES[tier] ?? 0) : mix(base, WHITE, TIER_FADES[tier] ?? 0);
}

export const categoryFill = (palette: Palette, category: number, isDark: boolean, tier = 0): string =>
  css(tierFill(baseFill(palette, category, isDark), tier, isDimmed(palette, isDark)));

// Dark or light text, whichever can be read on a box.
const [DARK_INK, LIGHT_INK] = ["#111", "#f4f5f7"];
const INK_FROM = 0.18; // luminance
export const isBright = (fill: number): boolean => {
  const linear = (value: number) => (value / 255) ** 2.2;
  const [red, green, blue] = [fill & 255, (fill >>> 8) & 255, (fill >>> 16) & 255].map(linear);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > INK_FROM;
};
export const inkOn = (fill: number): string => (isBright(fill) ? DARK_INK : LIGHT_INK);

// `change` from -1 (gone) over 0 to 1 (all new).
function diffColor(change: number, isDark: boolean): Rgb {
  const stops = DIFF_STOPS[Number(isDark)];
  const at = (Math.max(-1, Math.min(1, change)) + 1) * 2;
  const from = Math.min(3, Math.floor(at));
  return mix(stops[from], stops[from + 1], at - from);
}
export const diffFill = (change: number, isDark: boolean): string => css(diffColor(change, isDark));
export const diffPixel = (change: number, isDark: boolean): number => pixel(diffColor(change, isDark));

const dimmed = (color: Rgb, isDim: boolean): Rgb => (isDim ? mix(color, DARK_BACK, DARK_HASHED) : color);

// From functions without self time to the one with most, by lightness above all: that one stands out from
// the page, light or dark.
const SELF_STOPS = [
  ["#ecebe8", "#f6cfa6", "#ef9350", "#cf5a17"],
  ["#2f3238", "#5c4128", "#8d5320", "#d0742a"],
].map((stops) => stops.map(channels));

function selfColor(share: number, isDark: boolean): Rgb {
  const stops = SELF_STOPS[Number(isDark)];
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const from = Math.min(stops.length - 2, Math.floor(at));
  return mix(stops[from], stops[from + 1], at - from);
}
export const selfFill = (share: number, isDark: boolean): string => css(selfColor(share, isDark));

// By function, of self weights. Roots, as a few functions have most of the time.
export function selfPixels(weights: Float64Array, isDark: boolean): Uint32Array {
  const most = weights.reduce((largest, weight) => Math.max(largest, weight), 0);
  return Uint32Array.from(weights, (weight) =>
    pixel(selfColor(most > 0 ? Math.sqrt(weight / most) : 0, isDark)),
  );
}

// Routes are no code, so they have the colour of none.
const ROUTE_FILL = "#b8c6dc";

// Colours of all functions by tier, made once for a palette.
export class Paint {
  private readonly pixels: Uint32Array;
  private readonly count: number;

  constructor(
    private readonly names: Names,
    readonly palette: Palette,
    fade: number,
    back: string,
    readonly isDark: boolean,
  ) {
    this.count = functionCount(names) + names.packages.length;
    this.pixels = new Uint32Array((this.count + 1) * TIER_FADES.length);
    const behind = channels(back);
    const byCategory = new Map<number, Uint32Array>();
    const isDim = isDimmed(palette, isDark);
    const shades = (base: Rgb) =>
      Uint32Array.from(TIER_FADES, (_, tier) => pixel(mix(tierFill(base, tier, isDim), behind, fade)));
    for (let fn = 0 as FunctionIndex; fn <= this.count; fn++) {
      let made: Uint32Array | undefined;
      if (FILLS[palette] || palette === "state" || palette === "self" || fn === this.count) {
        const category = fn === this.count ? Category.Unknown : categoryOf(names, fn);
        made = byCategory.get(category);
        if (!made) byCategory.set(category, (made = shades(baseFill(palette, category, isDark))));
      } else made = shades(dimmed(this.hashed(fn), isDim));
      this.pixels.set(made, fn * TIER_FADES.length);
    }
    const route = shades(dimmed(channels(ROUTE_FILL), isDim));
    for (const fn of names.routes) this.pixels.set(route, fn * TIER_FADES.length);
  }

  private hashed(fn: FunctionIndex): Rgb {
    if (this.palette === "warm") {
      const value = hashOf(nameOf(this.names, fn));
      return [205 + (value % 50), 80 + ((value >>> 8) % 150), (value >>> 16) % 55];
    }
    const packageAt =
      fn < functionCount(this.names)
        ? this.names.packageOf[fn]
        : ((fn - functionCount(this.names)) as PackageIndex);
    const value = hashOf(this.names.packages[packageAt] ?? "");
    return hsl(value % 360, 0.5 + ((value >>> 9) % 3) * 0.12, 0.66 + ((value >>> 12) % 3) * 0.06);
  }

  pixel(fn: FunctionIndex, tier: number): number {
    return this.pixels[(fn < 0 || fn >= this.count ? this.count : fn) * TIER_FADES.length + tier];
  }
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length && at < 200; at++)
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 15)) >>> 0;
}

function hsl(hue: number, saturation: number, lightness: number): Rgb {
  const amount = saturation * Math.min(lightness, 1 - lightness);
  const channel = (offset: number) => {
    const at = (offset + hue / 30) % 12;
    return Math.round(255 * (lightness - amount * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}

export const hslPixel = (hue: number, saturation: number, lightness: number): number =>
  pixel(hsl(hue, saturation, lightness));

export function cssPixel(value: number): string {
  return css([value & 255, (value >>> 8) & 255, (value >>> 16) & 255]);
}
