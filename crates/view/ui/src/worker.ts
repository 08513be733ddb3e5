// The worker's side: holds the recording and answers the page. Counting never stops the page
// from drawing.

import { type Bands, bandsOf, type Culprit, culpritOf, stateMask } from "./model/bands";
import { combined } from "./model/combine";
import { calleesOf, callersOf, type FunctionWeights, fromLeaf, functionWeights } from "./model/derived";
import { ASYNC } from "./model/frames";
import { type HeatMap, heatMap } from "./model/heat";
import {
  type EventIndex,
  type FunctionIndex,
  plain,
  type TextIndex,
  type ThreadIndex,
} from "./model/indexes";
import { filesOf, type LineWeights, lineWeights } from "./model/lines";
import { functionCount, type Names, nameOf, type Profile, type Recording, selected } from "./model/profile";
import { hungByRoute, routeWeights } from "./model/routes";
import { findFunctions, matchedWeight, type Query } from "./model/search";
import { type Shape, shapeOf } from "./model/shape";
import { STATES, type State, type StateKind } from "./model/states";
import { Division, subsystemIn } from "./model/subsystems";
import { rowsOfThread, type Timeline, timeline, usualStep } from "./model/timeline";
import { type Tracks, tracks } from "./model/tracks";
import { type Transform, transformed, withoutCategories } from "./model/transforms";
import {
  type Marks,
  marksOf,
  nodeWeights,
  type Order,
  ownWeights,
  type Range,
  ROOT,
  type Shares,
  sharesOf,
  type Tree,
  treeOf,
} from "./model/tree";
import { fromBase64, Unpacker } from "./model/unpack";
import type { Watched } from "./model/watched";

// What the reader chose to see. It is the same for every view.
export interface Selection {
  event: EventIndex;
  threads: ThreadIndex[] | null;
  only: State | null; // what threads were doing
  isByState: boolean; // whether boxes say what it was
  route: number | null; // a row of `Names.routes`
  isByRoute: boolean; // whether stacks hang under their routes
  range: Range | null;
  compare: Range | "base" | null;
  hidden: number[]; // categories
  hasInternals: boolean;
  hasAsync: boolean;
  transforms: Transform[];
  order: Order;
}

export interface SourceText {
  file: TextIndex;
  text: string;
}

export type Chunk = string | Uint8Array;

// Every question of the page with its answer. `whole` is what shares in it are of: the weight of
// the selection's tree.
export interface Questions {
  // Recordings arrive in chunks, in base64 from the page or as bytes from its server; then they
  // are opened together.
  chunks: { ask: { of: "recording" | "base"; chunks: Chunk[] }; answer: null };
  open: { ask: { subsystemOf: string }; answer: Opened };
  tree: { ask: { selection: Selection }; answer: { tree: Tree; shares: Shares; whole: number } };
  fromLeaf: { ask: { selection: Selection }; answer: { tree: Tree } };
  sandwich: {
    ask: { selection: Selection; fn: FunctionIndex };
    answer: { callers: Tree; callees: Tree; whole: number };
  };
  functions: { ask: { selection: Selection }; answer: FunctionWeights };
  search: {
    ask: { selection: Selection; query: Query };
    answer: { hits: Uint8Array; matched: number; whole: number };
  };
  heat: {
    ask: { event: EventIndex; threads: ThreadIndex[] | null; maxColumns: number; maxRows: number };
    answer: HeatMap;
  };
  tracks: { ask: { event: EventIndex; maxBins: number }; answer: Tracks };
  bands: { ask: { maxBins: number; maxThreads: number }; answer: Bands }; // of all events
  culprit: { ask: { event: EventIndex; thread: ThreadIndex } & Range; answer: Culprit };
  timeline: {
    ask: { selection: Selection; thread: ThreadIndex; from: number; to: number; columns: number };
    answer: Timeline;
  };
  lines: {
    ask: { selection: Selection; file: TextIndex };
    answer: LineWeights & { whole: number };
  };
  files: { ask: { selection: Selection }; answer: { file: TextIndex; self: number }[] };
}

export interface Opened {
  names: Names;
  sources: SourceText[];
  // By event: how many samples there are, and whether there is something to compare with.
  samples: number[];
  hasBase: boolean[];
  states: StateKind[];
  routeWeights: number[][]; // by event and route
  hasAsync: boolean; // whether any frame is async
  watched: Watched;
  end: number;
}

type Kind = keyof Questions;

// What was counted last; its tree is not whole once the page has it.
interface Counted {
  key: string;
  isWhole: boolean;
  tree: Tree;
  own: Float64Array;
  base: Float64Array | null;
}

// Counts the samples of one event.
class Counter {
  private shapes = new Map<string, { shape: Shape; marks: Marks }>();
  private all: Float64Array | null = null; // weights of stacks in the whole recording
  private last: Counted | null = null;
  private threadRows: { thread: ThreadIndex; rows: Int32Array; step: number } | null = null;
  private byName: Int32Array;

  constructor(
    readonly profile: Profile,
    readonly event: EventIndex,
    readonly isByRoute: boolean,
    private readonly division: Division,
  ) {
    this.byName = new Int32Array(0);
  }

  // The place of every function in the order of names; only made for the order by name.
  private nameRanks(order: Order): Int32Array {
    if (order === "name" && this.byName.length === 0) {
      const { profile } = this;
      const all = Array.from(
        { length: functionCount(profile) + profile.packages.length },
        (_, fn) => fn as FunctionIndex,
      );
      const names = all.map((fn) => nameOf(profile, fn));
      all.sort((left, right) =>
        names[left] < names[right] ? -1 : names[left] > names[right] ? 1 : left - right,
      );
      this.byName = new Int32Array(all.length);
      all.forEach((fn, rank) => (this.byName[fn] = rank));
    }
    return this.byName;
  }

  shape(selection: Selection): { shape: Shape; marks: Marks } {
    const { hasInternals, hasAsync, hidden, transforms } = selection;
    const key = JSON.stringify([hasInternals, hasAsync, hidden, transforms]);
    let known = this.shapes.get(key);
    if (!known) {
      const whole = shapeOf(this.profile, hasInternals, hasAsync);
      let shape = withoutCategories(this.profile, whole, new Set(hidden));
      for (const transform of transforms) shape = transformed(this.profile, shape, transform);
      // Going back one step is what readers do next, so the last few are kept.
      if (this.shapes.size >= 3) this.shapes.delete(this.shapes.keys().next().value!);
      this.all ??= ownWeights(this.profile, this.profile.samples, { threads: null, range: null });
      known = { shape, marks: marksOf(this.profile, shape, this.all) };
      this.shapes.set(key, known);
    }
    return known;
  }

  private weights(selection: Selection): { own: Float64Array; base: Float64Array | null } {
    const { profile } = this;
    const threads = selection.threads && new Set(selection.threads);
    const only = selection.only === null ? null : stateMask(profile, selection.only);
    const { compare, range, route } = selection;
    const own = ownWeights(profile, profile.samples, { threads, range, only, route });
    if (compare === null) return { own, base: null };
    if (compare !== "base")
      return { own, base: ownWeights(profile, profile.samples, { threads, range: compare, only, route }) };
    if (!profile.base) return { own, base: null };
    return { own, base: ownWeights(profile, profile.base, { threads: null, range: null, route }) };
  }

  private counted(selection: Selection, isWhole = false): Counted {
    const key = JSON.stringify(selection);
    if (this.last?.key !== key || (isWhole && !this.last.isWhole)) {
      const { own, base } = this.weights(selection);
      const { shape, marks } = this.shape(selection);
      const { event } = this.profile;
      const { order } = selection;
      const state = selection.isByState ? this.states(selection, shape) : null;
      const tree = treeOf(shape, marks, own, base, event, order, this.nameRanks(order), state);
      this.last = { key, isWhole: true, tree, own, base };
    }
    return this.last;
  }

  // What threads mostly did in each path.
  private states(selection: Selection, shape: Shape): Uint8Array {
    const { profile } = this;
    const threads = selection.threads && new Set(selection.threads);
    const of = STATES.filter((state) => selection.only === null || selection.only === state);
    const totals = of.map((state) => {
      const only = stateMask(profile, state);
      const { range, route } = selection;
      const own = ownWeights(profile, profile.samples, { threads, range, only, route });
      return nodeWeights(shape, own).total;
    });
    const state = new Uint8Array(shape.size);
    for (let node = 0; node < state.length; node++) {
      let most = 0;
      for (let at = 1; at < of.length; at++) if (totals[at][node] > totals[most][node]) most = at;
      state[node] = of[most];
    }
    return state;
  }

  // The page's own copy of the last tree. Where boxes are is only asked by the page, so those
  // columns are not kept here.
  private handedOver(): Tree {
    const { tree } = this.last!;
    const { fn, parent, end, self, total, tier, baseSelf, baseTotal } = tree;
    const none = new Uint8Array(0);
    this.last = {
      ...this.last!,
      isWhole: false,
      tree: { ...tree, start: new Float64Array(0), depth: new Uint16Array(0), kind: none },
    };
    return {
      ...tree,
      fn: fn.slice(),
      parent: parent.slice(),
      end: end.slice(),
      self: self.slice(),
      total: total.slice(),
      tier: tier.slice(),
      baseSelf: baseSelf?.slice() ?? null,
      baseTotal: baseTotal?.slice() ?? null,
      state: tree.state?.slice() ?? null,
    };
  }

  private thread(thread: ThreadIndex): { rows: Int32Array; step: number } {
    if (this.threadRows?.thread !== thread) {
      const rows = rowsOfThread(this.profile.samples, thread);
      this.threadRows = { thread, rows, step: usualStep(this.profile, rows) };
    }
    return this.threadRows;
  }

  answer<K extends Kind>(kind: K, ask: Questions[K]["ask"]): Questions[K]["answer"] {
    const answers: { [Key in Kind]?: (ask: never) => Questions[Key]["answer"] } = {
      tree: ({ selection }: Questions["tree"]["ask"]) => {
        const { tree, own } = this.counted(selection, true);
        const shares = sharesOf(this.profile, tree);
        return { tree: this.handedOver(), shares, whole: sumOf(own) };
      },
      fromLeaf: ({ selection }: Questions["fromLeaf"]["ask"]) => ({
        tree: fromLeaf(this.counted(selection).tree, selection.order, this.nameRanks(selection.order)),
      }),
      sandwich: ({ selection, fn }: Questions["sandwich"]["ask"]) => {
        const ranks = this.nameRanks(selection.order);
        const { tree } = this.counted(selection);
        return {
          callers: callersOf(tree, fn, selection.order, ranks),
          callees: calleesOf(tree, fn, selection.order, ranks),
          whole: tree.total[ROOT],
        };
      },
      functions: ({ selection }: Questions["functions"]["ask"]) =>
        functionWeights(this.profile, this.counted(selection).tree),
      search: ({ selection, query }: Questions["search"]["ask"]) => {
        const { tree } = this.counted(selection);
        const subsystem = subsystemIn(query.text);
        if (subsystem !== null) {
          const hits = this.division.hits(
            subsystem,
            functionCount(this.profile) + this.profile.packages.length,
          );
          return { hits, matched: this.division.weight(tree, subsystem), whole: tree.total[ROOT] };
        }
        const hits = findFunctions(this.profile, query);
        return { hits, matched: matchedWeight(tree, hits, ROOT), whole: tree.total[ROOT] };
      },
      heat: ({ threads, maxColumns, maxRows }: Questions["heat"]["ask"]) =>
        heatMap(this.profile, threads && new Set(threads), maxColumns, maxRows),
      tracks: ({ maxBins }: Questions["tracks"]["ask"]) => tracks(this.profile, maxBins),
      culprit: ({ thread, from, to }: Questions["culprit"]["ask"]) =>
        culpritOf(this.profile, thread, from, to),
      timeline: ({ selection, thread, from, to, columns }: Questions["timeline"]["ask"]) => {
        const { rows, step } = this.thread(thread);
        return timeline(this.profile, this.shape(selection).shape, rows, step, from, to, columns);
      },
      lines: ({ selection, file }: Questions["lines"]["ask"]) => {
        const { own, base, tree } = this.counted(selection);
        return { ...lineWeights(this.profile, own, file, base), whole: tree.total[ROOT] };
      },
      files: ({ selection }: Questions["files"]["ask"]) => filesOf(this.profile, this.counted(selection).own),
    };
    return (answers[kind] as (ask: Questions[K]["ask"]) => Questions[K]["answer"])(ask);
  }
}

function sumOf(weights: Float64Array): number {
  let sum = 0;
  for (let at = 0; at < weights.length; at++) sum += weights[at];
  return sum;
}

export function opened(recording: Recording): Opened {
  const { texts, functions, packageOf, packages, packageCategory } = recording;
  const { processes, threads, events, about, routes } = recording;
  return {
    names: {
      texts,
      functions,
      packageOf,
      packages,
      packageCategory,
      processes,
      threads,
      events,
      about,
      routes,
    },
    sources: recording.sources,
    samples: recording.samples.map(({ time }) => time.length),
    hasBase: recording.base.map((samples) => samples !== null),
    states: recording.states,
    routeWeights: recording.samples.map((samples) => routeWeights(samples, routes.length)),
    hasAsync: plain<Uint8Array>(recording.frames.kind).includes(ASYNC),
    watched: recording.watched,
    end: recording.end,
  };
}

function buffersOf(value: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (typeof value !== "object" || value === null) return [];
  return [...new Set(Object.values(value).flatMap(buffersOf))];
}

export interface Message {
  id: number;
  kind: Kind;
  ask: unknown;
}
export type Reply = { id: number; answer: unknown } | { id: number; error: string };

export function serve(): void {
  const side = globalThis as unknown as {
    onmessage: (event: MessageEvent<Message>) => void;
    postMessage: (reply: Reply, transfer: ArrayBuffer[]) => void;
  };
  const arriving: { recording?: Unpacker; base?: Unpacker } = {};
  let recording: Recording | null = null;
  let shown: Recording | null = null; // with the base, where there is one
  let counter: Counter | null = null;
  let division = new Division("");
  const take = async ({ of, chunks }: Questions["chunks"]["ask"]): Promise<null> => {
    const unpacker = (arriving[of] ??= new Unpacker());
    for (const chunk of chunks) await unpacker.add(typeof chunk === "string" ? fromBase64(chunk) : chunk);
    return null;
  };
  const open = async (): Promise<Opened> => {
    if (arriving.recording) recording = await arriving.recording.finish();
    const base = arriving.base ? await arriving.base.finish() : null;
    delete arriving.recording;
    delete arriving.base;
    if (!recording) throw new Error("the page holds no recording");
    shown = base ? combined(recording, base) : recording;
    counter = null;
    return opened(shown);
  };
  // What was counted for another event is let go: readers stay with one for a while.
  const counterOf = (event: EventIndex, isByRoute: boolean): Counter => {
    if (counter?.event !== event || counter.isByRoute !== isByRoute) {
      const profile = selected(shown!, event);
      counter = new Counter(isByRoute ? hungByRoute(profile) : profile, event, isByRoute, division);
    }
    return counter;
  };
  const answer = (message: Message): unknown => {
    if (message.kind === "chunks") return take(message.ask as Questions["chunks"]["ask"]);
    if (message.kind === "open") {
      division = new Division((message.ask as Questions["open"]["ask"]).subsystemOf);
      return open();
    }
    if (message.kind === "bands") {
      const { maxBins, maxThreads } = message.ask as Questions["bands"]["ask"];
      return bandsOf(shown!, maxBins, maxThreads);
    }
    const ask = message.ask as { selection?: Selection; event?: EventIndex };
    const event = ask.selection?.event ?? ask.event!;
    // What is not about stacks is the same either way.
    const isByRoute = ask.selection?.isByRoute ?? counter?.isByRoute ?? false;
    return counterOf(event, isByRoute).answer(message.kind, message.ask as never);
  };
  // One after the other: a chunk that is still being unpacked is waited for.
  let last: Promise<void> = Promise.resolve();
  side.onmessage = ({ data }) => {
    last = last.then(async () => {
      try {
        const answered = await answer(data);
        // What was made for the page alone moves to it; names are needed on both sides.
        side.postMessage({ id: data.id, answer: answered }, data.kind === "open" ? [] : buffersOf(answered));
      } catch (error) {
        side.postMessage({ id: data.id, error: error instanceof Error ? error.message : String(error) }, []);
      }
    });
  };
}
