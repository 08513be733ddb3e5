// Everything the page can do, once: keys, menu, command palette and help are made of this list.

import { fileOf, functionCount, nameOf, placeOf } from "../model/profile";
import { Category } from "../model/tables";
import type { App, Target } from "./app";
import { byId } from "./dom";
import { PALETTES } from "./look";
import { saveImage, saveSvg } from "./save";
import { START, type State } from "./state";

export interface Action {
  label: string;
  keys: string[];
  group: "Views" | "Picture" | "Search" | "Function" | "Selection" | "Page";
  run?(app: App): void;
  onTarget?(app: App, target: Target): void;
  isPossible?(app: App, target: Target): boolean;
}

const toggle =
  (key: "isIcicle" | "isFromLeaf" | "hasInternals" | "isProportional" | "isRegExp" | "isExact") =>
  (app: App) =>
    app.change({ [key]: !app.state[key], ...(key === "isFromLeaf" ? { zoom: [] } : {}) } as Partial<State>);

const view =
  (name: State["view"], rest: Partial<State> = {}) =>
  (app: App) =>
    app.change({ view: name, ...rest });

export async function copy(app: App, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from a file may not have the clipboard: the old way still works there.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  app.say(`Copied ${text.length > 80 ? `${text.length} characters` : text}`);
}

// App code only: what is not the reader's own gives its time to the caller.
const NOT_MINE: number[] = [
  Category.Dependency,
  Category.NodeCore,
  Category.Builtin,
  Category.RegExp,
  Category.Gc,
  Category.Native,
  Category.Kernel,
  Category.Unknown,
];
export const isOnlyMine = (state: State): boolean =>
  NOT_MINE.every((category) => state.hidden.includes(category));

function undo(app: App): void {
  const { transforms, compare, range } = app.state;
  if (transforms.length) app.change({ transforms: transforms.slice(0, -1), zoom: [] });
  else if (compare) app.change({ compare: null });
  else if (range) app.change({ range: null });
}

function nextThread(app: App, step: number): void {
  const weights = app.answers.tracks.value?.weights;
  const all = app.names.threads.map((_, at) => at).filter((at) => !weights || weights[at] > 0);
  if (weights) all.sort((left, right) => weights[right] - weights[left]);
  if (app.state.view === "time") {
    const at = Math.max(0, all.indexOf(app.state.thread));
    app.change({ thread: all[(at + step + all.length) % all.length], window: null });
    return;
  }
  const at = app.state.threads?.length === 1 ? all.indexOf(app.state.threads[0]) : step > 0 ? -1 : all.length;
  const goal = at + step;
  app.change({ threads: goal < 0 || goal >= all.length ? null : [all[goal]], zoom: [] });
}

const isFunction = (app: App, target: Target) => target.fn < functionCount(app.names);

export const ACTIONS: Action[] = [
  { group: "Views", keys: ["1"], label: "Flame graph", run: view("flame", { isIcicle: false }) },
  { group: "Views", keys: ["2"], label: "Icicle graph", run: view("flame", { isIcicle: true }) },
  { group: "Views", keys: ["3"], label: "Time order", run: view("time") },
  { group: "Views", keys: ["4"], label: "Sandwich: callers and callees", run: view("sandwich") },
  { group: "Views", keys: ["5"], label: "Top functions", run: view("top") },
  { group: "Views", keys: ["6"], label: "Call tree", run: view("tree") },
  { group: "Views", keys: ["7"], label: "Source", run: view("source") },
  {
    group: "Views",
    keys: ["h"],
    label: "Heat map above the view, or not",
    run: (app) => app.change({ overview: app.state.overview === "heat" ? "none" : "heat" }),
  },
  {
    group: "Views",
    keys: ["t"],
    label: "Threads above the view, or not",
    run: (app) => app.change({ overview: app.state.overview === "threads" ? "none" : "threads" }),
  },
  { group: "Picture", keys: ["i"], label: "Root at the top or at the bottom", run: toggle("isIcicle") },
  {
    group: "Picture",
    keys: ["v"],
    label: "Merge from the leaf, or from the root",
    run: toggle("isFromLeaf"),
  },
  {
    group: "Picture",
    keys: ["l"],
    label: "Order: heaviest first, or by name",
    run: (app) => app.change({ order: app.state.order === "heavy" ? "name" : "heavy" }),
  },
  {
    group: "Picture",
    keys: ["0"],
    label: "Zoom out altogether",
    run: (app) => app.change({ zoom: [], window: null }),
  },
  {
    group: "Picture",
    keys: ["I"],
    label: "Internal frames (stubs, trampolines), shown or not",
    run: toggle("hasInternals"),
  },
  {
    group: "Picture",
    keys: ["o"],
    label: "Only my code, or everything",
    run: (app) => app.change({ hidden: isOnlyMine(app.state) ? [] : NOT_MINE, zoom: [] }),
  },
  {
    group: "Picture",
    keys: ["p"],
    label: "Next palette",
    run: (app) => {
      const names = PALETTES.map(([name]) => name);
      app.change({ palette: names[(names.indexOf(app.state.palette) + 1) % names.length] }, false);
    },
  },
  {
    group: "Picture",
    keys: ["z"],
    label: "Dark or light",
    run: (app) => app.change({ theme: app.isDark ? "light" : "dark" }, false),
  },
  {
    group: "Picture",
    keys: ["%"],
    label: "Diff colours: of the whole, or of what it was",
    run: toggle("isProportional"),
  },
  {
    group: "Search",
    keys: ["/", "Ctrl+F"],
    label: "Search",
    run: () => {
      byId<HTMLInputElement>("query").focus();
      byId<HTMLInputElement>("query").select();
    },
  },
  { group: "Search", keys: ["R"], label: "Search by regular expression, or text", run: toggle("isRegExp") },
  { group: "Search", keys: [], label: "Search as typed, upper and lower case", run: toggle("isExact") },
  {
    group: "Function",
    keys: ["f"],
    label: "Focus on the function",
    onTarget: (app, { fn }) => app.addTransform({ kind: "focus", fn }),
  },
  {
    group: "Function",
    keys: ["F"],
    label: "Focus on this subtree",
    isPossible: (_, { path }) => path !== null,
    onTarget: (app, { path }) => path && app.addTransform({ kind: "subtree", path }),
  },
  {
    group: "Function",
    keys: ["s"],
    label: "Callers and callees",
    onTarget: (app, { fn }) => app.change({ view: "sandwich", fn }),
  },
  {
    group: "Function",
    keys: ["m"],
    label: "Merge into the callers",
    onTarget: (app, { fn }) => app.addTransform({ kind: "merge", fn }),
  },
  {
    group: "Function",
    keys: ["x"],
    label: "Drop samples with it",
    onTarget: (app, { fn }) => app.addTransform({ kind: "drop", fn }),
  },
  {
    group: "Function",
    keys: ["r"],
    label: "Collapse its recursion",
    onTarget: (app, { fn }) => app.addTransform({ kind: "recursion", fn }),
  },
  {
    group: "Function",
    keys: ["C"],
    label: "Collapse its package",
    isPossible: isFunction,
    onTarget: (app, { fn }) => app.addTransform({ kind: "package", package: app.names.packageOf[fn] }),
  },
  {
    group: "Function",
    keys: ["e"],
    label: "Source",
    isPossible: isFunction,
    onTarget: (app, { fn }) => app.change({ view: "source", fn, file: app.names.functions.file[fn] }),
  },
  {
    group: "Function",
    keys: ["c"],
    label: "Copy the name",
    onTarget: (app, { fn }) => void copy(app, nameOf(app.names, fn)),
  },
  {
    group: "Function",
    keys: ["y"],
    label: "Copy file and line",
    isPossible: (app, { fn }) => fileOf(app.names, fn) !== "",
    onTarget: (app, { fn }) => void copy(app, placeOf(app.names, fn)),
  },
  {
    group: "Function",
    keys: ["k"],
    label: "Copy the stack",
    isPossible: (_, { path }) => path !== null,
    onTarget: (app, { path }) =>
      void copy(
        app,
        [...path!]
          .reverse()
          .map((fn) => [nameOf(app.names, fn), placeOf(app.names, fn)].filter(Boolean).join(" "))
          .join("\n"),
      ),
  },
  { group: "Selection", keys: ["u", "Backspace"], label: "Undo the last step", run: undo },
  {
    group: "Selection",
    keys: ["U"],
    label: "Undo all steps",
    run: (app) =>
      app.change({ transforms: [], range: null, compare: null, hidden: [], threads: null, zoom: [] }),
  },
  { group: "Selection", keys: ["]"], label: "Next thread", run: (app) => nextThread(app, 1) },
  { group: "Selection", keys: ["["], label: "Previous thread", run: (app) => nextThread(app, -1) },
  { group: "Page", keys: [], label: "Save as SVG", run: saveSvg },
  { group: "Page", keys: [], label: "Save as PNG", run: saveImage },
  { group: "Page", keys: [], label: "Print", run: () => print() },
  {
    group: "Page",
    keys: [],
    label: "Copy a link to what is shown",
    run: (app) => void copy(app, location.href),
  },
  {
    group: "Page",
    keys: [],
    label: "Start over",
    run: (app) => app.change({ ...START, palette: app.state.palette, theme: app.state.theme }),
  },
  {
    group: "Page",
    keys: ["Ctrl+K"],
    label: "Commands",
    run: () => byId<HTMLDialogElement>("palette").showModal(),
  },
  { group: "Page", keys: ["?"], label: "Help", run: () => byId<HTMLDialogElement>("help").showModal() },
];
