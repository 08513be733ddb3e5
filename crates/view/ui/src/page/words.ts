// Words and numbers, the same everywhere on the page.

import type { EventType } from "../model/profile";

// Rounds as Rust's formatter does, so that the page and a report of the same profile agree.
function fixed(digits: number): (value: number) => string {
  const format = new Intl.NumberFormat("en", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    roundingMode: "halfEven",
    useGrouping: false,
  });
  return (value) => format.format(value);
}
const whole = fixed(0);
const tenths = fixed(1);

const COUNT = new Intl.NumberFormat("en");

export const count = (value: number): string => COUNT.format(Math.round(value));

export const counted = (value: number, noun: string): string =>
  `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export function duration(nanoseconds: number): string {
  const seconds = nanoseconds / 1e9;
  if (seconds < 0.001) return `${whole(seconds * 1e6)} µs`;
  if (seconds < 0.01) return `${tenths(seconds * 1e3)} ms`;
  if (seconds < 1) return `${whole(seconds * 1e3)} ms`;
  if (seconds < 120) return `${tenths(seconds)} s`;
  if (seconds < 7200) return `${whole(seconds / 60)} min`;
  return `${tenths(seconds / 3600)} h`;
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

// What an event counts: `page-faults:u` page faults, a tracepoint its events.
function nounOf({ name }: EventType): string {
  const last = name.replace(/\/+$/, "").split("/").at(-1)!;
  const base = last.replace(/^([^:]*):[ukhHGpPSDIWeb]*$/, "$1");
  if (base === "") return "events";
  if (base === "cs") return "context switches";
  if (base === "faults") return "page faults";
  return /^[\w-]*s$/.test(base) ? base.replace(/[-_]/g, " ") : `${base} events`;
}

const singular = (noun: string): string => noun.replace(/(?<=ch|sh|ss)es$|s$/, "");

export function weightText(value: number, event: EventType): string {
  const { unit } = event;
  if (unit === "nanoseconds") return duration(value);
  if (unit === "events") return `${count(value)} ${value === 1 ? singular(nounOf(event)) : nounOf(event)}`;
  if (unit !== "bytes") return counted(value, "sample");
  if (value < 1e4) return counted(value, "byte");
  return value < 1e7 ? `${whole(value / 1e3)} kB` : `${tenths(value / 1e6)} MB`;
}

// A part that is there never shows as 0, nor one that is not whole as 100.
export function percent(part: number, all: number): string {
  const value = all > 0 ? (part / all) * 100 : 0;
  if (value > 0 && value < 0.1) return "<0.1 %";
  if (value < 100 && value > 99.9) return ">99.9 %";
  return value === 0 || value === 100 ? `${value} %` : `${tenths(value)} %`;
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
