// Everything the page can do, once: keys, menu, command palette and help are made of this list.

import type { EventIndex, ThreadIndex } from "../model/indexes";
import { fileOf, functionCount, nameOf, placeOf } from "../model/profile";
import { Category } from "../model/tables";
import { WIDTHS } from "../model/widths";
import type { App, Target } from "./app";
import { PALETTES, type Palette } from "./colors";
import { byId } from "./dom";
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
  (
    key:
      | "isIcicle"
      | "isFromLeaf"
      | "hasInternals"
      | "isProportional"
      | "isOnlyChanged"
      | "isRegExp"
      | "isExact",
  ) =>
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

// JavaScript only, whose ever it is: what it runs in V8, in libraries and in the kernel is its own.
const NOT_JAVASCRIPT = NOT_MINE.filter((at) => at !== Category.Dependency && at !== Category.NodeCore);
export const isOnlyJavaScript = (state: State): boolean =>
  !isOnlyMine(state) && NOT_JAVASCRIPT.every((category) => state.hidden.includes(category));

function undo(app: App): void {
  const { transforms, compare, range } = app.state;
  if (transforms.length) app.change({ transforms: transforms.slice(0, -1), zoom: [] });
  else if (compare) app.change({ compare: null });
  else if (range) app.change({ range: null });
}

function nextThread(app: App, step: number): void {
  const weights = app.answers.tracks.answer?.weights;
  const all = app.names.threads.map((_, at) => at as ThreadIndex).filter((at) => !weights || weights[at] > 0);
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

function nextEvent(app: App): void {
  const { length } = app.names.events;
  if (length < 2) return app.say("One event was recorded.");
  app.chooseEvent(((app.state.event + 1) % length) as EventIndex);
}

const isFunction = (app: App, target: Target) => target.fn < functionCount(app.names);

const BY_ID = {
  flame: { group: "Views", keys: ["1"], label: "Flame graph", run: view("flame", { isIcicle: false }) },
  icicle: { group: "Views", keys: ["2"], label: "Icicle graph", run: view("flame", { isIcicle: true }) },
  time: { group: "Views", keys: ["3"], label: "Time order", run: view("time") },
  sandwich: { group: "Views", keys: ["4"], label: "Sandwich: callers and callees", run: view("sandwich") },
  top: { group: "Views", keys: ["5"], label: "Top functions", run: view("top") },
  tree: { group: "Views", keys: ["6"], label: "Call tree", run: view("tree") },
  source: { group: "Views", keys: ["7"], label: "Source", run: view("source") },
  heat: {
    group: "Views",
    keys: ["h"],
    label: "Heat map above the view, or not",
    run: (app) => app.change({ overview: app.state.overview === "heat" ? "none" : "heat" }),
  },
  threads: {
    group: "Views",
    keys: ["t"],
    label: "Threads above the view, or not",
    run: (app) => app.change({ overview: app.state.overview === "threads" ? "none" : "threads" }),
  },
  rootSide: {
    group: "Picture",
    keys: ["i"],
    label: "Root at the top or at the bottom",
    run: toggle("isIcicle"),
  },
  fromLeaf: {
    group: "Picture",
    keys: ["v"],
    label: "Merge from the leaf, or from the root",
    run: toggle("isFromLeaf"),
  },
  order: {
    group: "Picture",
    keys: ["l"],
    label: "Order: heaviest first, or by name",
    run: (app) => app.change({ order: app.state.order === "heavy" ? "name" : "heavy" }),
  },
  zoomOut: {
    group: "Picture",
    keys: ["0"],
    label: "Zoom out altogether",
    run: (app) => app.change({ zoom: [], window: null }),
  },
  internals: {
    group: "Picture",
    keys: ["I"],
    label: "Internal frames (stubs, trampolines), shown or not",
    run: toggle("hasInternals"),
  },
  async: {
    group: "Picture",
    keys: ["A"],
    label: "Async callers (await), shown or not",
    run: (app) =>
      app.hasAsync ? app.change({ hasAsync: !app.state.hasAsync, zoom: [] }) : app.say("No frame is async."),
  },
  byRoute: {
    group: "Picture",
    keys: ["G"],
    label: "Group by route, or not",
    run: (app) =>
      app.hasRoutes
        ? app.change({ isByRoute: !app.state.isByRoute, zoom: [] })
        : app.say("No sample says which route it is of."),
  },
  onlyMine: {
    group: "Picture",
    keys: ["o"],
    label: "Only my code, or everything",
    run: (app) => app.change({ hidden: isOnlyMine(app.state) ? [] : NOT_MINE, zoom: [] }),
  },
  onlyJavaScript: {
    group: "Picture",
    keys: ["j"],
    label: "Only JavaScript, or everything",
    run: (app) => app.change({ hidden: isOnlyJavaScript(app.state) ? [] : NOT_JAVASCRIPT, zoom: [] }),
  },
  start: {
    group: "Picture",
    keys: ["b"],
    label: "What lies below the first branch: one bar, or every frame",
    run: (app) => app.change({ isStartOpen: !app.state.isStartOpen }),
  },
  palette: {
    group: "Picture",
    keys: ["p"],
    label: "Next palette",
    run: (app) => {
      const isThere = (name: Palette) => name !== "state" || app.states.length > 0;
      const names = PALETTES.map(([name]) => name).filter(isThere);
      app.change({ palette: names[(names.indexOf(app.state.palette) + 1) % names.length] }, false);
    },
  },
  theme: {
    group: "Picture",
    keys: ["z"],
    label: "Dark or light",
    run: (app) => app.change({ theme: app.isDark ? "light" : "dark" }, false),
  },
  proportional: {
    group: "Picture",
    keys: ["%"],
    label: "Diff colours: of the whole, or of what it was",
    run: toggle("isProportional"),
  },
  widths: {
    group: "Picture",
    keys: ["W"],
    label: "Diff widths: after, before, both, or the difference",
    run: (app) =>
      app.change({ widths: WIDTHS[(WIDTHS.indexOf(app.state.widths) + 1) % WIDTHS.length], zoom: [] }),
  },
  onlyChanged: {
    group: "Picture",
    keys: ["g"],
    label: "Diff: only what changed, or everything",
    run: toggle("isOnlyChanged"),
  },
  search: {
    group: "Search",
    keys: ["/", "Ctrl+F"],
    label: "Search",
    run: () => {
      byId<HTMLInputElement>("query").focus();
      byId<HTMLInputElement>("query").select();
    },
  },
  regExp: {
    group: "Search",
    keys: ["R"],
    label: "Search by regular expression, or text",
    run: toggle("isRegExp"),
  },
  exactCase: {
    group: "Search",
    keys: [],
    label: "Search as typed, upper and lower case",
    run: toggle("isExact"),
  },
  focus: {
    group: "Function",
    keys: ["f"],
    label: "Focus on the function",
    onTarget: (app, { fn }) => app.addTransform({ kind: "focus", fn }),
  },
  subtree: {
    group: "Function",
    keys: ["F"],
    label: "Focus on this subtree",
    isPossible: (_, { path }) => path !== null,
    onTarget: (app, { path }) => path && app.addTransform({ kind: "subtree", path }),
  },
  callersAndCallees: {
    group: "Function",
    keys: ["s"],
    label: "Callers and callees",
    onTarget: (app, { fn }) => app.change({ view: "sandwich", fn }),
  },
  merge: {
    group: "Function",
    keys: ["m"],
    label: "Merge into the callers",
    onTarget: (app, { fn }) => app.addTransform({ kind: "merge", fn }),
  },
  drop: {
    group: "Function",
    keys: ["x"],
    label: "Drop samples with it",
    onTarget: (app, { fn }) => app.addTransform({ kind: "drop", fn }),
  },
  recursion: {
    group: "Function",
    keys: ["r"],
    label: "Collapse its recursion",
    onTarget: (app, { fn }) => app.addTransform({ kind: "recursion", fn }),
  },
  package: {
    group: "Function",
    keys: ["C"],
    label: "Collapse its package",
    isPossible: isFunction,
    onTarget: (app, { fn }) => app.addTransform({ kind: "package", package: app.names.packageOf[fn] }),
  },
  openSource: {
    group: "Function",
    keys: ["e"],
    label: "Source",
    isPossible: isFunction,
    onTarget: (app, { fn }) => app.change({ view: "source", fn, file: app.names.functions.file[fn] }),
  },
  copyName: {
    group: "Function",
    keys: ["c"],
    label: "Copy the name",
    onTarget: (app, { fn }) => void copy(app, nameOf(app.names, fn)),
  },
  copyPlace: {
    group: "Function",
    keys: ["y"],
    label: "Copy file and line",
    isPossible: (app, { fn }) => fileOf(app.names, fn) !== "",
    onTarget: (app, { fn }) => void copy(app, placeOf(app.names, fn)),
  },
  copyStack: {
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
  undo: { group: "Selection", keys: ["u", "Backspace"], label: "Undo the last step", run: undo },
  undoAll: {
    group: "Selection",
    keys: ["U"],
    label: "Undo all steps",
    run: (app) =>
      app.change({
        transforms: [],
        range: null,
        compare: null,
        hidden: [],
        threads: null,
        route: null,
        zoom: [],
      }),
  },
  nextEvent: {
    group: "Selection",
    keys: ["E"],
    label: "Next event, where several were recorded",
    run: nextEvent,
  },
  nextThread: { group: "Selection", keys: ["]"], label: "Next thread", run: (app) => nextThread(app, 1) },
  previousThread: {
    group: "Selection",
    keys: ["["],
    label: "Previous thread",
    run: (app) => nextThread(app, -1),
  },
  saveSvg: { group: "Page", keys: [], label: "Save as SVG", run: saveSvg },
  savePng: { group: "Page", keys: [], label: "Save as PNG", run: saveImage },
  print: { group: "Page", keys: [], label: "Print", run: () => print() },
  copyLink: {
    group: "Page",
    keys: [],
    label: "Copy a link to what is shown",
    run: (app) => void copy(app, location.href),
  },
  startOver: {
    group: "Page",
    keys: [],
    label: "Start over",
    run: (app) => app.change({ ...START, palette: app.state.palette, theme: app.state.theme }),
  },
  commands: {
    group: "Page",
    keys: ["Ctrl+K"],
    label: "Commands",
    run: () => byId<HTMLDialogElement>("palette").showModal(),
  },
  help: { group: "Page", keys: ["?"], label: "Help", run: () => byId<HTMLDialogElement>("help").showModal() },
} satisfies Record<string, Action>;

export type ActionId = keyof typeof BY_ID;

export const action = (id: ActionId): Action => BY_ID[id];

// In the order in which help and the command palette list them.
export const ACTIONS: readonly Action[] = Object.values(BY_ID);
