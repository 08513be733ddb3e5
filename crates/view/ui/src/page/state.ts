// What the page shows, all of it in the address, so that a link shows what its sender saw.

import {
  type EventIndex,
  type FunctionIndex,
  NO_FUNCTION,
  NO_TEXT,
  NO_THREAD,
  type TextIndex,
  type ThreadIndex,
} from "../model/indexes";
import { FIRST_EVENT } from "../model/profile";
import { STATE_LABELS, STATES, type State as ThreadState } from "../model/states";
import { CATEGORY_LABELS } from "../model/tables";
import { decodeTransforms, encodeTransforms, type Transform } from "../model/transforms";
import type { Order, Range } from "../model/tree";
import { WIDTHS, type Widths } from "../model/widths";
import { PALETTES, type Palette } from "./colors";

export const VIEWS = ["flame", "time", "sandwich", "top", "tree", "source"] as const;
export type ViewName = (typeof VIEWS)[number];
export type Overview = "heat" | "threads" | "none";
export const SORTS = ["self", "total", "name", "place", "change", "verdict"] as const;
export type Sort = (typeof SORTS)[number];

export interface State {
  view: ViewName;
  event: EventIndex;
  isIcicle: boolean;
  isFromLeaf: boolean;
  order: Order;
  query: string;
  isRegExp: boolean;
  isExact: boolean;
  threads: ThreadIndex[] | null;
  only: ThreadState | null; // what threads were doing; null for all of it
  route: string | null; // of requests; null for all samples
  isByRoute: boolean; // stacks hang under their routes
  range: Range | null;
  compare: Range | "base" | null;
  isProportional: boolean; // a diff compares with what a function was, not with the whole
  widths: Widths; // of boxes in a diff
  isOnlyChanged: boolean; // what may be noise is left out of a diff
  transforms: Transform[];
  zoom: FunctionIndex[]; // the path of functions zoomed into
  hidden: number[];
  hasInternals: boolean;
  hasAsync: boolean;
  isStartOpen: boolean; // frames below the place where the graph branches, one by one
  fn: FunctionIndex; // the function of the sandwich and the source, -1 for none
  file: TextIndex; // the text of the source's file, -1 for that of the function
  thread: ThreadIndex; // the thread of the time order, -1 for the busiest
  window: Range | null; // the part of time order in sight
  overview: Overview | null; // null: what suits the recording
  palette: Palette;
  theme: "system" | "light" | "dark";
  sort: Sort;
  isRising: boolean;
}

export const START: State = {
  view: "flame",
  event: FIRST_EVENT,
  isIcicle: false,
  isFromLeaf: false,
  order: "heavy",
  query: "",
  isRegExp: false,
  isExact: false,
  threads: null,
  only: null,
  route: null,
  isByRoute: false,
  range: null,
  compare: null,
  isProportional: false,
  widths: "after",
  isOnlyChanged: false,
  transforms: [],
  zoom: [],
  hidden: [],
  hasInternals: false,
  hasAsync: true,
  isStartOpen: false,
  fn: NO_FUNCTION,
  file: NO_TEXT,
  thread: NO_THREAD,
  window: null,
  overview: null,
  palette: "category",
  theme: "system",
  sort: "self",
  isRising: false,
};

// Row numbers of any table; the app checks that they exist in this recording.
const numbers = <T extends number>(text: string): T[] =>
  text
    .split(".")
    .map(Number)
    .filter((value) => Number.isSafeInteger(value)) as T[];
const rangeText = (range: Range): string => `${Math.round(range.from)}-${Math.round(range.to)}`;

function range(text: string | null): Range | null {
  const found = /^(\d{1,16})-(\d{1,16})$/.exec(text ?? "");
  return found && Number(found[1]) < Number(found[2])
    ? { from: Number(found[1]), to: Number(found[2]) }
    : null;
}

const oneOf = <T extends string>(text: string | null, known: readonly T[], otherwise: T): T =>
  known.includes(text as T) ? (text as T) : otherwise;

function index<T extends number>(text: string | null): T {
  const value = text === null || text === "" ? -1 : Number(text);
  return (Number.isSafeInteger(value) && value >= 0 ? value : -1) as T;
}

// Each part of the state: its short name, how it is written, how it is read. What is as at the
// start is not written.
const PARTS: [string, (state: State) => string, (text: string | null) => Partial<State>][] = [
  ["v", (state) => state.view, (text) => ({ view: oneOf(text, VIEWS, "flame") })],
  [
    "ev",
    (state) => String(state.event),
    (text) => ({ event: Math.max(FIRST_EVENT, index<EventIndex>(text)) as EventIndex }),
  ],
  ["o", (state) => (state.isIcicle ? "icicle" : ""), (text) => ({ isIcicle: text === "icicle" })],
  ["leaf", (state) => flag(state.isFromLeaf), (text) => ({ isFromLeaf: text === "1" })],
  ["order", (state) => state.order, (text) => ({ order: oneOf<Order>(text, ["heavy", "name"], "heavy") })],
  ["q", (state) => state.query, (text) => ({ query: (text ?? "").slice(0, 1000) })],
  ["re", (state) => flag(state.isRegExp), (text) => ({ isRegExp: text === "1" })],
  ["case", (state) => flag(state.isExact), (text) => ({ isExact: text === "1" })],
  ["t", (state) => state.threads?.join(".") ?? "", (text) => ({ threads: text ? numbers(text) : null })],
  [
    "st",
    (state) => (state.only === null ? "" : STATE_LABELS[state.only].toLowerCase()),
    (text) => ({ only: STATES.find((each) => STATE_LABELS[each].toLowerCase() === text) ?? null }),
  ],
  ["route", (state) => state.route ?? "", (text) => ({ route: text ? text.slice(0, 1000) : null })],
  ["by", (state) => (state.isByRoute ? "route" : ""), (text) => ({ isByRoute: text === "route" })],
  ["r", (state) => (state.range ? rangeText(state.range) : ""), (text) => ({ range: range(text) })],
  [
    "cmp",
    (state) => (state.compare === null ? "" : state.compare === "base" ? "base" : rangeText(state.compare)),
    (text) => ({ compare: text === "base" ? "base" : range(text) }),
  ],
  ["prop", (state) => flag(state.isProportional), (text) => ({ isProportional: text === "1" })],
  ["dw", (state) => state.widths, (text) => ({ widths: oneOf(text, WIDTHS, "after") })],
  ["chg", (state) => flag(state.isOnlyChanged), (text) => ({ isOnlyChanged: text === "1" })],
  [
    "tf",
    (state) => encodeTransforms(state.transforms),
    (text) => ({ transforms: decodeTransforms(text ?? "") }),
  ],
  ["x", (state) => state.zoom.join("."), (text) => ({ zoom: text ? numbers(text) : [] })],
  [
    "hide",
    (state) => state.hidden.join("."),
    (text) => ({ hidden: text ? numbers(text).filter((at) => at < CATEGORY_LABELS.length) : [] }),
  ],
  ["raw", (state) => flag(state.hasInternals), (text) => ({ hasInternals: text === "1" })],
  ["async", (state) => (state.hasAsync ? "" : "0"), (text) => ({ hasAsync: text !== "0" })],
  ["start", (state) => flag(state.isStartOpen), (text) => ({ isStartOpen: text === "1" })],
  ["fn", (state) => (state.fn < 0 ? "" : String(state.fn)), (text) => ({ fn: index<FunctionIndex>(text) })],
  [
    "file",
    (state) => (state.file < 0 ? "" : String(state.file)),
    (text) => ({ file: index<TextIndex>(text) }),
  ],
  [
    "th",
    (state) => (state.thread < 0 ? "" : String(state.thread)),
    (text) => ({ thread: index<ThreadIndex>(text) }),
  ],
  ["w", (state) => (state.window ? rangeText(state.window) : ""), (text) => ({ window: range(text) })],
  [
    "ov",
    (state) => state.overview ?? "",
    (text) => ({ overview: text ? oneOf<Overview>(text, ["heat", "threads", "none"], "none") : null }),
  ],
  [
    "colors",
    (state) => state.palette,
    (text) => ({
      palette: oneOf(
        text,
        PALETTES.map(([name]) => name),
        "category",
      ),
    }),
  ],
  [
    "theme",
    (state) => state.theme,
    (text) => ({ theme: oneOf<State["theme"]>(text, ["system", "light", "dark"], "system") }),
  ],
  ["sort", (state) => state.sort, (text) => ({ sort: oneOf(text, SORTS, "self") })],
  ["up", (state) => flag(state.isRising), (text) => ({ isRising: text === "1" })],
];

const flag = (value: boolean): string => (value ? "1" : "");

export function encodeState(state: State): string {
  const parts = new URLSearchParams();
  for (const [name, write] of PARTS) {
    const text = write(state);
    if (text !== write(START)) parts.set(name, text);
  }
  return parts.toString();
}

export function decodeState(text: string): State {
  const parts = new URLSearchParams(text);
  return Object.assign({ ...START }, ...PARTS.map(([name, , read]) => read(parts.get(name))));
}
