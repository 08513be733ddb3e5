// Ties the parts together: the state, the answers of the worker, and what follows from them.

import { type Bar, type Folds, foldsOf } from "../model/folds";
import {
  type EventIndex,
  type FunctionIndex,
  NO_FUNCTION,
  NO_TEXT,
  NO_THREAD,
  type NodeIndex,
  type ThreadIndex,
} from "../model/indexes";
import {
  FIRST_EVENT,
  functionCount,
  type Names,
  nameOf,
  poolThreads,
  shortPlace,
  type Unit,
} from "../model/profile";
import type { StateKind, State as ThreadState } from "../model/states";
import type { Category } from "../model/tables";
import type { Transform } from "../model/transforms";
import { pathTo, type Range, ROOT, type Shares, type Tree } from "../model/tree";
import { type SentComparison, type Verdict, Verdicts } from "../model/verdicts";
import { longestOf, rangeOf, type Watched } from "../model/watched";
import { withWidths } from "../model/widths";
import type { Opened, Questions, Selection, SourceText } from "../worker";
import { type Client, Latest } from "./client";
import { categoryFill, Paint, type Palette, selfPixels } from "./colors";
import { byId } from "./dom";
import { decodeState, encodeState, START, type State } from "./state";
import { percent, points, shortName } from "./words";

export interface Target {
  fn: FunctionIndex;
  path: FunctionIndex[] | null;
}

// A part of the page that shows something of the app.
export interface Panel {
  readonly root: HTMLElement;
  update(): void;
  target?(): Target | null;
  key?(event: KeyboardEvent): boolean; // whether the key was for this panel
}

// What stands out, and what the names between backticks in it are: "f12" is function 12, "t3" thread 3,
// "l3" the event loop of thread 3, "s3" its longest stall, "p0" the pool of process 0, "" something that
// is not in the picture. One more is the main thread, where a sentence speaks of it.
export interface Findings {
  findings: string[];
  leads: string[][];
  subsystems: SubsystemRow[];
}

// A subsystem with its share in words, and the search that shows where it is; so too its packages or
// modules, for which there may be no search.
export interface SubsystemRow {
  label: string;
  share: string;
  search: string;
  category: Category;
  members: [name: string, share: string, search: string][];
}

export interface Preview extends Findings {
  title: string;
  who: string;
  how: string;
  confidence: string[];
  remarks: string[];
  facts: [string, string][];
  waits?: [text: string, lead: string][][]; // what loops and pools did
  // What differs from event to event, where there are several. `how` and `findings` are those of
  // the first; of very many events only the first have them.
  events?: ({ label: string; total: string } & Partial<{ how: string } & Findings>)[];
  event: string; // the name of the first
  unit: Unit;
  subsystemOf: string; // a letter for each function
  durationNs: number;
  samples: number;
}

// What a box has itself, with the word for it; a bar, what all of its frames have. What the root has
// is code of which no frame is shown, if there is such.
export function selfOf(tree: Tree, node: NodeIndex, bar: Bar | null): [string, number] | null {
  const self = (bar?.nodes ?? [node]).reduce((sum, each) => sum + tree.self[each], 0);
  if (node > ROOT) return ["self", self];
  return self > 0 ? ["other code", self] : null;
}

// Nothing left out.
const WHOLE = {
  threads: null,
  only: null,
  route: null,
  range: null,
  compare: null,
  transforms: [],
  hidden: [],
  zoom: [],
};

// A tree beside its base.
export interface Diff {
  change: (node: NodeIndex) => number; // from -1 to 1
  changed: Uint8Array | null; // by node: whether it changed, or something it calls; null where nothing says
  counted: Uint8Array | null; // by node: whether it changed by itself
}

export const GONE = "gone: ";
const LEAST_CHANGE = 0.001; // of the whole

// What the worker has read, as far as a selection depends on it.
interface Reading {
  names: Names;
  states: StateKind[];
  bases: boolean[]; // whether there is something to compare with, by event
}

function readingOf({ names, states, hasBase }: Opened): Reading {
  return { names, states: states ?? [], bases: hasBase };
}

function routeRow(name: string | null, names: Names): number | null {
  if (name === null) return null;
  const row = names.routes.findIndex((fn) => nameOf(names, fn) === name);
  return row < 0 ? null : row;
}

type Asked = Exclude<keyof Questions, "chunks" | "open">;
type Answer<K extends keyof Questions> = Questions[K]["answer"];

export class App {
  state: State = START;
  names: Names;
  tree: Tree;
  shares: Shares | null = null;
  whole: number; // what all chosen samples weigh, before any transform drops some
  event = FIRST_EVENT; // of the tree
  end: number; // ns
  private counts: number[]; // of samples, by event
  private bases: boolean[] = [];
  isReady = false;
  sources: SourceText[] = [];
  states: StateKind[] = [];
  private routeWeights: number[][] = []; // by event and route
  hasAsync = false; // whether any frame is
  watched: Watched = { loops: [], pools: [] };
  panels: Panel[] = [];
  readonly answers: { [K in Asked]: Latest<Questions[K]["ask"], Answer<K>> } = {
    tree: new Latest(),
    fromLeaf: new Latest(),
    sandwich: new Latest(),
    functions: new Latest(),
    search: new Latest(),
    heat: new Latest(),
    tracks: new Latest(),
    bands: new Latest(),
    culprit: new Latest(),
    timeline: new Latest(),
    lines: new Latest(),
    files: new Latest(),
  };
  badQuery = "";
  private hitsOf: { query: string; hits: Uint8Array } | null = null;
  readonly systemDark = matchMedia("(prefers-color-scheme: dark)");
  private pageColors: { isDark: boolean; colors: { back: string; rest: string; text: string } } | null = null;
  private readonly diffs = new WeakMap<Tree, Diff & { key: unknown[] }>();
  track = ""; // to be brought into sight
  revealing = NO_FUNCTION; // to be shown in the picture once that is counted
  private folded: { tree: Tree; folds: Folds | null } | null = null;
  comparison: SentComparison | null;
  private judged: { names: Names; verdicts: Verdicts } | null = null;
  private readonly widened = new WeakMap<Tree, { key: unknown[]; tree: Tree }>();
  private paints: { key: string; paint: Paint; faded: Paint } | null = null;
  private heated: { tree: Tree; isDark: boolean; pixels: Uint32Array } | null = null;

  constructor(
    readonly client: Client,
    readonly preview: Preview,
    names: Names,
    tree: Tree,
    comparison: SentComparison | null = null,
  ) {
    this.comparison = comparison;
    this.names = names;
    this.tree = tree;
    this.whole = tree.total[ROOT];
    this.end = preview.durationNs;
    this.counts = [preview.samples];
  }

  // Takes over what the worker read, together with its first tree: boxes of one reading must not get names of
  // another. What was drawn stays until then. `chosen` is what is to be shown.
  async open(opened: Opened, chosen: Partial<State> = {}): Promise<void> {
    const reading = readingOf(opened);
    const state = this.checked({ ...this.state, ...chosen }, reading);
    const question = { selection: this.selection(state, reading) };
    const hasSamples = opened.samples.some((count) => count > 0);
    const tree = hasSamples ? await this.client.ask("tree", question) : null;
    this.takeOver(opened, chosen);
    if (!tree) return;
    this.answers.tree.know(question, tree);
    this.takeTree(tree, state.event);
  }

  takeOver(opened: Opened, chosen: Partial<State> = {}): void {
    Object.assign(this, readingOf(opened));
    this.sources = opened.sources;
    this.routeWeights = opened.routeWeights ?? [];
    this.hasAsync = opened.hasAsync ?? false;
    this.watched = opened.watched ?? { loops: [], pools: [] };
    this.end = opened.end;
    this.counts = opened.samples;
    this.isReady = true;
    this.paints = null;
    for (const answer of Object.values(this.answers)) answer.forget();
    this.hitsOf = null;
    this.state = this.checked({ ...this.state, ...chosen });
  }

  // How many samples the chosen event has.
  get samples(): number {
    return this.counts[this.state.event] ?? 0;
  }

  get hasSamples(): boolean {
    return this.counts.some((count) => count > 0);
  }

  // The routes that samples of the chosen event have, heaviest first, with their shares.
  get routes(): { name: string; share: string }[] {
    const weights = this.routeWeights[this.state.event] ?? [];
    const whole = weights.reduce((sum, weight) => sum + weight, 0);
    const rows = weights.map((weight, at) => ({ weight, at })).filter(({ weight }) => weight > 0);
    if (!rows.some(({ at }) => at > 0)) return [];
    rows.sort((left, right) => right.weight - left.weight || left.at - right.at);
    return rows.map(({ weight, at }) => ({
      name: nameOf(this.names, this.names.routes[at]),
      share: percent(weight, whole),
    }));
  }

  get hasRoutes(): boolean {
    return this.names.routes.length > 0;
  }

  get hasBase(): boolean {
    return this.bases[this.state.event] ?? false;
  }

  // Everything that was chosen holds for the other event, but for a base that has no such event.
  chooseEvent(event: EventIndex): void {
    const { compare } = this.state;
    this.change({ event, compare: compare === "base" && !this.bases[event] ? null : compare });
  }

  // A link may come from another recording: what does not exist here is left out.
  private checked(state: State, { names, states, bases }: Reading = this.reading): State {
    const event = state.event < names.events.length ? state.event : FIRST_EVENT;
    const functions = names.functions.name.length + names.packages.length;
    const isFunction = (fn: FunctionIndex) => fn < functions;
    const isKnown = (transform: Transform) =>
      transform.kind === "package"
        ? transform.package < names.packages.length
        : transform.kind === "subtree"
          ? transform.path.every(isFunction)
          : isFunction(transform.fn);
    const threads = state.threads?.filter((thread) => thread < names.threads.length) ?? null;
    return {
      ...state,
      event,
      threads: threads?.length ? threads : null,
      only: states.length ? state.only : null,
      route: routeRow(state.route, names) === null ? null : state.route,
      isByRoute: state.isByRoute && names.routes.length > 0,
      thread: state.thread < names.threads.length ? state.thread : NO_THREAD,
      transforms: state.transforms.filter(isKnown),
      fn: isFunction(state.fn) ? state.fn : NO_FUNCTION,
      file: state.file < names.texts.size ? state.file : NO_TEXT,
      compare: state.compare === "base" && !bases[event] ? null : state.compare,
    };
  }

  change(part: Partial<State>, isStep = true): void {
    this.state = { ...this.state, ...part };
    this.remember(isStep);
    this.update();
  }

  private remember(isStep: boolean): void {
    const text = encodeState(this.state);
    if (`#${text}` === (location.hash || "#")) return;
    try {
      history[isStep ? "pushState" : "replaceState"](null, "", `#${text}`);
    } catch {
      // A page inside a sandboxed frame has no address of its own to change.
    }
  }

  recall(): void {
    this.state = decodeState(location.hash.slice(1));
    if (this.isReady) this.state = this.checked(this.state);
    this.update();
  }

  private get reading(): Reading {
    return { names: this.names, states: this.states, bases: this.bases };
  }

  selection(state: State = this.state, { names, states }: Reading = this.reading): Selection {
    const { event, threads, only, isByRoute, range, compare, order, palette } = state;
    const { hidden, hasInternals, hasAsync, transforms } = state;
    const isByState = palette === "state" && states.length > 0;
    const route = routeRow(state.route, names);
    const chosen = { event, threads, only, isByState, route, isByRoute, range, compare };
    return { ...chosen, hidden, hasInternals, hasAsync, transforms, order };
  }

  // The worker's answer to this very question. Null while there is none: what is drawn then stays
  // as it is, data and labels, and the page is updated when the answer arrives.
  ask<K extends Asked>(kind: K, question: Questions[K]["ask"]): Answer<K> | null {
    if (!this.isReady) return null;
    const latest = this.answers[kind] as Latest<Questions[K]["ask"], Answer<K>>;
    return latest.ask(
      question,
      () => this.client.ask(kind, question),
      () => this.update(),
      (error) => this.fail(`The recording cannot be counted: ${error.message}`),
    );
  }

  update(): void {
    this.updateTree();
    this.updateSearch();
    for (const panel of this.panels) panel.update();
    const isBusy = Object.values(this.answers).some((answer) => answer.isWaiting);
    const { dataset } = document.body;
    dataset.busy = byId("views").ariaBusy = String(isBusy);
    if (!isBusy && this.answers.tree.answer) dataset.ready = "yes";
  }

  private updateTree(): void {
    const answer = this.ask("tree", { selection: this.selection() });
    if (answer) this.takeTree(answer, this.state.event);
  }

  private takeTree(answer: Answer<"tree">, event: EventIndex): void {
    Object.assign(this, { ...answer, event });
  }

  private updateSearch(): void {
    const { query: text, isRegExp, isExact } = this.state;
    this.badQuery = "";
    if (!text) return this.answers.search.forget();
    if (isRegExp) {
      try {
        new RegExp(text, "u");
      } catch (error) {
        this.badQuery =
          error instanceof Error ? error.message.replace(/^.*: /, "") : "not a regular expression";
        return this.answers.search.forget();
      }
    }
    const query = { text, isRegExp, isExact };
    const answer = this.ask("search", { selection: this.selection(), query });
    if (answer) this.hitsOf = { query: JSON.stringify(query), hits: answer.hits };
    else if (this.hitsOf?.query !== JSON.stringify(query)) this.hitsOf = null;
  }

  // What the search found; null while it is not known.
  get found(): Answer<"search"> | null {
    return this.state.query ? this.answers.search.answer : null;
  }

  // By function. They hold for every selection, so they stay while another one is counted.
  get hits(): Uint8Array | null {
    return this.state.query && !this.badQuery ? (this.hitsOf?.hits ?? null) : null;
  }

  get isDark(): boolean {
    return this.state.theme === "dark" || (this.state.theme === "system" && this.systemDark.matches);
  }

  // Colours of the page itself, as its style has them; asked for once a theme.
  get colors(): { back: string; rest: string; text: string } {
    if (this.pageColors?.isDark !== this.isDark) {
      document.documentElement.dataset.theme = this.state.theme;
      const style = getComputedStyle(document.body);
      const color = (name: string) => style.getPropertyValue(name).trim();
      this.pageColors = {
        isDark: this.isDark,
        colors: { back: color("--back"), rest: color("--rest"), text: color("--text") },
      };
    }
    return this.pageColors.colors;
  }

  paint(): { paint: Paint; faded: Paint } {
    const { back } = this.colors;
    const palette: Palette = this.state.palette;
    const key = `${palette} ${back}`;
    if (this.paints?.key !== key) {
      this.paints = {
        key,
        paint: new Paint(this.names, palette, 0, back, this.isDark),
        faded: new Paint(this.names, palette, 0.66, back, this.isDark),
      };
    }
    return this.paints;
  }

  // Colours by function where they stand for self time, and for functions that are none; null where not.
  get heat(): Uint32Array | null {
    const { tree, isDark, names } = this;
    if (this.state.palette !== "self") return null;
    if (this.heated?.tree !== tree || this.heated.isDark !== isDark) {
      const weights = new Float64Array(functionCount(names) + names.packages.length + 1);
      for (let node = (ROOT + 1) as NodeIndex; node < tree.size; node++)
        if (tree.fn[node] >= 0) weights[tree.fn[node]] += tree.self[node];
      this.heated = { tree, isDark, pixels: selfPixels(weights, isDark) };
    }
    return this.heated.pixels;
  }

  // The colour of a category, for samples of it outside of the picture.
  fillOf(category: number, tier?: number): string {
    return categoryFill(this.state.palette, category, this.isDark, tier);
  }

  // What the runs say of functions, where whole recordings were compared.
  get verdicts(): Verdicts | null {
    if (this.state.compare !== "base" || !this.comparison || !this.isReady) return null;
    if (this.judged?.names !== this.names)
      this.judged = { names: this.names, verdicts: new Verdicts(this.names, this.comparison) };
    return this.judged.verdicts;
  }

  verdictOf(fn: FunctionIndex): Verdict | null {
    return fn < 0 ? null : (this.verdicts?.of(fn) ?? null);
  }

  // What a weight of the earlier side is in weights of the later. Runs that did the same work are compared by
  // what they cost, others by shares.
  get baseFactor(): number {
    const { total, baseTotal } = this.tree;
    const before = this.state.compare === "base" ? (this.comparison?.before ?? 1) : 1;
    return baseTotal?.[ROOT] ? (total[ROOT] / baseTotal[ROOT]) * before || 1 : 1;
  }

  // The shares of a node now and before.
  sharesOf(tree: Tree, node: NodeIndex): [number, number] {
    const before = (tree.baseTotal?.[node] ?? 0) * this.baseFactor;
    const whole = tree.total[ROOT] || (tree.baseTotal?.[ROOT] ?? 0) * this.baseFactor || 1;
    return [tree.total[node] / whole, before / whole];
  }

  // How a node's share changed, in percent points; empty where there is no base.
  changeText(tree: Tree, node: NodeIndex): string {
    return tree.baseTotal ? points(...this.sharesOf(tree, node)) : "";
  }

  // What a diff of a tree looks like: how much more or less of the whole nodes are than before, from -1 to 1,
  // and which of them may be noise. A tree of callers is about the functions that are called.
  diffOf(tree: Tree, isOfCallers: boolean): Diff | null {
    if (!tree.baseTotal) return null;
    const { verdicts, baseFactor, state } = this;
    const key = [verdicts, baseFactor, state.isProportional];
    let known = this.diffs.get(tree);
    if (!known || known.key.some((each, at) => each !== key[at])) {
      const changed = verdicts && (isOfCallers ? verdicts.changedLeaves(tree) : verdicts.changed(tree));
      const counted = verdicts && (isOfCallers ? changed : verdicts.own(tree));
      known = { key, change: this.changeIn(tree), changed, counted };
      this.diffs.set(tree, known);
    }
    return known;
  }

  private changeIn(tree: Tree): (node: NodeIndex) => number {
    if (this.state.isProportional) {
      return (node) => {
        const [now, before] = this.sharesOf(tree, node);
        return before === 0
          ? now > 0
            ? 1
            : 0
          : Math.max(-1, Math.min(1, Math.log2(now / before || 1e-9) / 2));
      };
    }
    const factor = this.baseFactor;
    const { total } = tree;
    const baseTotal = tree.baseTotal!;
    const whole = total[ROOT] || baseTotal[ROOT] * factor || 1;
    let most = 0.01 * whole;
    for (let node = 1 as NodeIndex; node < tree.size; node++)
      most = Math.max(most, Math.abs(total[node] - baseTotal[node] * factor));
    return (node) => (total[node] - baseTotal[node] * factor) / most;
  }

  // The tree with boxes as wide as the reader wants them. Its nodes are those of the tree.
  drawn(tree: Tree, diff: Diff | null): Tree {
    const { widths, isOnlyChanged } = this.state;
    const counted = isOnlyChanged ? (diff?.counted ?? null) : null;
    if (!diff || (widths === "after" && !counted)) return tree;
    const { baseFactor } = this;
    const key = [diff, widths, baseFactor, counted];
    let known = this.widened.get(tree);
    if (!known || known.key.some((each, at) => each !== key[at])) {
      known = { key, tree: withWidths(tree, widths, baseFactor, counted) };
      this.widened.set(tree, known);
    }
    return known.tree;
  }

  // What stands before the name of a box in a diff, for readers who see no colours.
  signOf(tree: Tree, diff: Diff, node: NodeIndex): string {
    if (node === ROOT) return "";
    if (tree.total[node] === 0) return GONE;
    if (diff.changed && !diff.changed[node]) return "";
    if (tree.baseTotal![node] === 0) return "new: ";
    if (diff.counted && !diff.counted[node]) return "";
    if (this.verdictOf(tree.fn[node])?.standing === "moved") return "moved: ";
    const [now, before] = this.sharesOf(tree, node);
    if (Math.abs(now - before) < LEAST_CHANGE) return "";
    return now > before ? "+ " : "− ";
  }

  // What of the tree can be drawn as one bar.
  get folds(): Folds | null {
    const { tree, names } = this;
    if (this.folded?.tree !== tree) this.folded = { tree, folds: foldsOf(names, tree) };
    return this.folded.folds;
  }

  // The node that a path of functions leads to, as far as it goes.
  nodeAt(tree: Tree, path: FunctionIndex[]): NodeIndex {
    let node = ROOT;
    for (const fn of path) {
      let child = (node + 1) as NodeIndex;
      while (child < tree.end[node] && tree.fn[child] !== fn) child = tree.end[child];
      if (child >= tree.end[node]) return node;
      node = child;
    }
    return node;
  }

  pathOf(tree: Tree, node: NodeIndex): FunctionIndex[] {
    return pathTo(tree, node);
  }

  addTransform(transform: Transform): void {
    this.change({ transforms: [...this.state.transforms, transform], zoom: [] });
  }

  // Shows where something is that the summary counts, in the whole recording, as it does.
  find(query: string): void {
    const search = { query, isRegExp: false, isExact: false };
    this.change({ ...WHOLE, ...search, view: "flame", isFromLeaf: false });
  }

  // Goes to what a finding names. Findings are of the whole recording, so nothing is left out.
  follow(lead: string): void {
    const row = Number(lead.slice(1));
    const part = WHOLE;
    const show = (threads: ThreadIndex[], range: Range | null, track: string) => {
      this.track = track;
      const overview = this.state.overview === "none" ? null : this.state.overview;
      this.change({ ...part, threads: threads.length ? threads : null, range, overview, view: "flame" });
    };
    const thread = row as ThreadIndex;
    if (lead.startsWith("t")) return this.change({ ...part, threads: [thread], view: "flame" });
    if (lead.startsWith("l")) return show([thread], null, `loop-${row}`);
    if (lead.startsWith("s")) return show([thread], this.longestStall(thread), `loop-${row}`);
    if (lead.startsWith("p")) return show(poolThreads(this.names, row), null, `pool-${row}`);
    const fn = row as FunctionIndex;
    this.revealing = fn;
    this.change({ ...part, fn, view: "flame", isFromLeaf: false, query: "" });
  }

  private longestStall(thread: ThreadIndex): Range | null {
    const stalls = this.watched.loops.find((loop) => loop.thread === thread)?.stalls ?? [];
    const longest = longestOf(stalls);
    return longest && rangeOf(longest, this.end);
  }

  // Shows what threads did, at a time and in a state where they are given.
  choose(range: Range | null, threads: ThreadIndex[], only: ThreadState | null = null): void {
    this.change({ range, threads: threads.length ? threads : null, only, compare: null, zoom: [] });
  }

  nameOf(fn: FunctionIndex): string {
    return shortName(nameOf(this.names, fn));
  }

  // One line about a node: what screen readers hear and the bottom of the page shows.
  describe(tree: Tree, node: NodeIndex, bar: Bar | null = null): string {
    const fn = tree.fn[node];
    const place = bar ? "" : shortPlace(this.names, fn);
    const share = (value: number) => percent(value, tree.total[ROOT]);
    const name = bar?.label ?? `${this.nameOf(fn).slice(0, 100)}${place ? ` (${place})` : ""}`;
    const self = selfOf(tree, node, bar);
    const parts = [
      `total ${share(tree.total[node])}`,
      self && `${self[0]} ${share(self[1])}`,
      this.changeText(tree, node),
      this.verdictOf(fn)?.words,
    ];
    return `${name}: ${parts.filter(Boolean).join(", ")}`;
  }

  say(text: string): void {
    byId("status").textContent = text;
  }

  fail(message: string): void {
    byId("message").textContent = message;
    byId("message").hidden = false;
    document.body.dataset.failed = "yes";
  }

  get range(): Range {
    return this.state.range ?? { from: 0, to: this.end };
  }
}
