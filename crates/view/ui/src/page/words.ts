// Words and numbers, the same everywhere on the page.

import type { Unit } from "../model/profile";

export const CATEGORY_LABELS = [
  "app",
  "dependency",
  "node core",
  "V8 builtin",
  "wasm",
  "regexp",
  "GC",
  "native",
  "kernel",
  "idle",
  "unknown",
  "internal",
];
export const TIER_LABELS = ["", "interpreted", "baseline", "maglev", "optimized"];
export const ROLES = ["main", "worker", "libuv pool", "V8 platform", "other"];

const COUNT = new Intl.NumberFormat("en");

export const count = (value: number): string => COUNT.format(Math.round(value));

export const counted = (value: number, noun: string): string =>
  `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function duration(nanoseconds: number): string {
  const seconds = nanoseconds / 1e9;
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// A moment of the recording, exact enough to tell neighbours apart.
export function moment(nanoseconds: number, stepNs: number): string {
  const seconds = nanoseconds / 1e9;
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(stepNs / 1e9))));
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  const rest = (seconds % 60).toFixed(digits);
  if (hours > 0)
    return `${hours}:${String(minutes).padStart(2, "0")}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
  if (minutes > 0) return `${minutes}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
  return `${rest} s`;
}

// The next step of time, in ns, that people count in.
export function tickStep(rough: number): number {
  const MINUTE = 60e9;
  const long = [1, 2, 5, 10, 30, 60, 120, 360, 720].map((minutes) => minutes * MINUTE);
  if (rough > 30e9) return long.find((each) => each >= rough) ?? 1440 * MINUTE;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  return [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough)!;
}

export function weightText(value: number, unit: Unit): string {
  if (unit === "nanoseconds") return duration(value);
  if (unit === "bytes")
    return value < 1e4
      ? counted(value, "byte")
      : value < 1e7
        ? `${count(value / 1e3)} kB`
        : `${(value / 1e6).toFixed(1)} MB`;
  return counted(value, "sample");
}

// A part that is there never shows as 0, nor one that is not whole as 100.
export function percent(part: number, whole: number): string {
  const value = whole > 0 ? (part / whole) * 100 : 0;
  if (value > 0 && value < 0.1) return "<0.1 %";
  if (value < 100 && value > 99.9) return ">99.9 %";
  return value === 0 || value === 100 ? `${value} %` : `${value.toFixed(1)} %`;
}

// A change of shares in percent points, with its sign.
export function points(share: number, baseShare: number): string {
  const change = (share - baseShare) * 100;
  const sign = change > 0 ? "+" : change < 0 ? "−" : "±";
  return `${sign}${Math.abs(change).toFixed(Math.abs(change) < 0.1 && change !== 0 ? 2 : 1)} points`;
}

// A C++ name without the arguments of functions and templates.
export function shortName(name: string): string {
  if (!name.includes("::")) return name;
  let short = "";
  let depth = 0;
  for (const character of name.replaceAll("(anonymous namespace)", "{anonymous}")) {
    if (character === "<" || character === "(") depth++;
    else if ((character === ">" || character === ")") && depth > 0) depth--;
    else if (depth === 0) short += character;
  }
  return depth === 0 ? short.replace(/ const$/, "") : name;
}
