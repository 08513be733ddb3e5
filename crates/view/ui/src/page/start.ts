// Starts the page: the preview at once, everything when the worker has read the recording.

import { column, NO_NODE, type NodeIndex, type TextIndex } from "../model/indexes";
import { packagesOf } from "../model/packages";
import type { EventType, FunctionColumns, Names } from "../model/profile";
import { ROOT, type Tree } from "../model/tree";
import type { SentComparison } from "../model/verdicts";
import { ACTIONS } from "./actions";
import { App, type Panel, type Preview } from "./app";
import { Client } from "./client";
import { CommandPalette, fillHelp } from "./dialogs";
import { byId } from "./dom";
import { acceptDrops } from "./dropzone";
import { FlameView } from "./flameview";
import { Menu } from "./menu";
import { Overview } from "./overview";
import { Sandwich } from "./sandwich";
import { SourceView } from "./sourceview";
import { decodeState } from "./state";
import { Summary } from "./summary";
import { TimeView } from "./timeview";
import { Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";
import { TopView } from "./topview";
import { TreeView } from "./treeview";

// Weights in the preview are in this many parts of the whole.
const SCALE = 32768;
// How many chunks of the recording go to the worker in one message.
const CHUNKS_AT_ONCE = 64;

interface PreviewTree extends Preview {
  functions: [string, string, number, number][]; // name, file, line, category
  tree: { fn: number[]; pop: number[]; total: number[]; tier: number[] };
  whole: number;
}

// Names as the worker would send them, of the functions that the preview has.
function previewNames(preview: PreviewTree): Names {
  const { functions } = preview;
  const texts = { size: 2 * functions.length, get: (at: TextIndex) => functions[at >> 1][at & 1] as string };
  const columns: FunctionColumns = {
    name: column(Int32Array.from(functions, (_, at) => 2 * at)),
    file: column(Int32Array.from(functions, ([, file], at) => (file ? 2 * at + 1 : -1))),
    line: Uint32Array.from(functions, ([, , line]) => line),
    column: new Uint32Array(functions.length),
    category: Uint8Array.from(functions, ([, , , kind]) => kind),
  };
  const { durationNs, title: app } = preview;
  return {
    texts,
    functions: columns,
    ...packagesOf(texts, columns),
    processes: [],
    threads: [],
    routes: [],
    events: [eventOf(preview)],
    about: { app, host: "", started: 0, durationNs },
  };
}

function eventOf({ event: name, unit }: Preview): EventType {
  return { name, unit, rateHz: 0 };
}

function previewTree(preview: PreviewTree): Tree {
  const { tree: sent, whole } = preview;
  const size = sent.fn.length;
  const tree: Tree = {
    size,
    event: eventOf(preview),
    rows: 1,
    fn: column(Int32Array.from(sent.fn)),
    parent: column(new Int32Array(size)),
    depth: new Uint16Array(size),
    end: column(new Int32Array(size)),
    start: new Float64Array(size),
    self: new Float64Array(size),
    total: Float64Array.from(sent.total, (parts) => (parts * whole) / SCALE),
    tier: Uint8Array.from(sent.tier),
    kind: new Uint8Array(size),
    baseSelf: null,
    baseTotal: null,
  };
  const open: NodeIndex[] = [];
  const next = new Float64Array(size);
  for (let node = ROOT; node < size; node++) {
    for (let pop = sent.pop[node]; pop > 0 && open.length; pop--) tree.end[open.pop()!] = node;
    const parent = open.at(-1) ?? NO_NODE;
    tree.parent[node] = parent;
    tree.depth[node] = open.length;
    tree.rows = Math.max(tree.rows, open.length + 1);
    if (parent >= 0) {
      tree.start[node] = next[node] = next[parent];
      next[parent] += tree.total[node];
    }
    open.push(node);
  }
  for (const node of open) tree.end[node] = size as NodeIndex;
  return tree;
}

// The texts of elements, some at a time; they are gone from the page once taken.
function* takeTexts(selector: string): Generator<string[]> {
  const chunks = [...document.querySelectorAll<HTMLTemplateElement>(selector)];
  while (chunks.length) {
    const taken = chunks.splice(0, CHUNKS_AT_ONCE);
    const texts = taken.map((chunk) => chunk.content.textContent ?? "");
    for (const chunk of taken) chunk.remove();
    yield texts;
  }
}

export function startPage(): void {
  const script = document.currentScript!.textContent!;
  const preview = JSON.parse(byId("preview").textContent!) as PreviewTree;
  const client = new Client(script);
  const comparison = JSON.parse(byId("comparison").textContent || "null") as SentComparison | null;
  const app = new App(client, preview, previewNames(preview), previewTree(preview), comparison);
  const tooltip = new Tooltip(app);
  const menu = new Menu(app, () => ACTIONS);
  const flame = new FlameView(app, tooltip, menu);
  const views: Panel[] = [
    flame,
    new TimeView(app, tooltip, menu),
    new Sandwich(app, tooltip, menu),
    new TopView(app, menu),
    new TreeView(app, menu),
    new SourceView(app),
  ];
  for (const view of views) view.root.hidden = true;
  byId("views").append(...views.map((view) => view.root));
  document.body.append(menu.root);
  app.panels = [new Summary(app), new Toolbar(app), new Overview(app, tooltip), ...views];
  listen(app, menu, flame, views);
  app.state = decodeState(location.hash.slice(1));
  if (preview.tree.fn.length > 1) {
    app.update();
    flame.flame.draw();
    document.body.dataset.ready = "preview";
  }
  client.start();
  // The recording follows the script in the document; what is above is drawn while it arrives.
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void open(app));
  else void open(app);
}

async function open(app: App): Promise<void> {
  new CommandPalette(app);
  fillHelp();
  acceptDrops(app);
  try {
    const texts = [takeTexts("template.recording"), takeTexts("template.base")] as const;
    const opened = await app.client.open(...texts, app.preview.subsystemOf);
    const isCompared = opened.hasBase.includes(true) && !location.hash;
    const sort = app.comparison ? "verdict" : app.state.sort;
    await app.open(opened, isCompared ? { compare: "base", sort } : {});
  } catch (error) {
    app.fail(`The recording cannot be shown: ${error instanceof Error ? error.message : error}`);
    return;
  }
  if (!app.hasSamples) return app.fail("No samples were recorded.");
  app.update();
}

function listen(app: App, menu: Menu, flame: FlameView, views: Panel[]): void {
  const active = () => views.find((view) => !view.root.hidden);
  const stepBack = () => {
    if (menu.isOpen) menu.close();
    else if (app.state.query) app.change({ query: "" }, false);
    else if (flame.flame.selected >= 0) flame.flame.select(NO_NODE);
    else if (flame.flame.isPanned) flame.flame.resetSpan();
    else if (app.state.zoom.length || app.state.window) app.change({ zoom: [], window: null });
  };
  const openMenu = () => {
    const target = active()?.target?.() ?? null;
    const { x, y } =
      flame.flame.selected > 0 && !flame.root.hidden
        ? flame.flame.placeOf(flame.flame.selected)
        : (document.activeElement ?? document.body).getBoundingClientRect();
    menu.open(target, x, y + 10);
  };
  document.addEventListener("keydown", (event) => {
    const element = event.target as HTMLElement;
    const isTyping = element.matches("input[type=search], select, input[type=text]");
    if (document.querySelector("dialog[open]") || (menu.isOpen && menu.root.contains(element))) return;
    const name = event.ctrlKey || event.metaKey ? `Ctrl+${event.key.toUpperCase()}` : event.key;
    if (
      event.altKey ||
      (isTyping && name !== "Escape" && !name.startsWith("Ctrl+") && !(name === "Enter" && app.hits))
    )
      return;
    if (isTyping && name === "Enter") {
      flame.flame.nextHit(event.shiftKey ? -1 : 1);
      return;
    }
    if (name === "Escape") {
      if (isTyping) element.blur();
      stepBack();
    } else if (name === "M" || name === "ContextMenu" || (event.shiftKey && name === "F10")) openMenu();
    else if (!runKey(name, event, element)) return;
    event.preventDefault();
  });
  const runKey = (name: string, event: KeyboardEvent, element: HTMLElement): boolean => {
    const isOnControl = element.matches("button, summary, input, a");
    if (isOnControl && (name === "Enter" || name === " ")) return false;
    if (element.getAttribute("role") === "tab" && name.startsWith("Arrow")) return walkTabs(name);
    if (!name.startsWith("Ctrl+") && active()?.key?.(event)) return true;
    const target = active()?.target?.() ?? null;
    const action = ACTIONS.find(
      (each) =>
        each.keys.includes(name) &&
        (each.run || (target && target.fn >= 0 && (each.isPossible?.(app, target) ?? true))),
    );
    if (!action) return false;
    if (action.onTarget) action.onTarget(app, target!);
    else action.run!(app);
    return true;
  };
  const walkTabs = (name: string): boolean => {
    const tabs = [...document.querySelectorAll<HTMLElement>("[role=tab]")];
    const at = tabs.indexOf(document.activeElement as HTMLElement);
    const goal =
      tabs[(at + (name === "ArrowLeft" || name === "ArrowUp" ? tabs.length - 1 : 1)) % tabs.length];
    goal.focus();
    goal.click();
    return true;
  };
  addEventListener("popstate", () => app.recall());
  addEventListener("hashchange", () => app.recall());
  app.systemDark.addEventListener("change", () => app.update());
  addEventListener("error", (event) => {
    // Browsers say that a size will be seen a frame later; nothing is lost.
    if (event.message.startsWith("ResizeObserver loop")) return;
    app.fail(`Error in the page: ${event.message}`);
  });
}
