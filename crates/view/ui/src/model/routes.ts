// The routes of the HTTP requests that samples were taken in, and stacks hung under them.

import { type Column, column, type FrameIndex, type FunctionIndex, plain, type StackIndex } from "./indexes";
import { type FunctionColumns, type Profile, Texts } from "./profile";
import { type SampleColumns, weightOf } from "./samples";
import { Category } from "./tables";

export const NO_REQUEST = "(no request)";
const OTHER = "(other routes)";
// Each becomes a function and a row of a list to choose from; what comes later is one of them.
const MAX_ROUTES = 1000;

// The routes of a recording, and which of them each context has. The first is that of samples in no request.
export class RouteTable {
  readonly names: string[] = [];
  private readonly known = new Map<string, number>();
  private readonly ofContext: number[] = [0]; // the first context is the empty one

  add(route: string | undefined): void {
    this.ofContext.push(route ? this.numberOf(route) : 0);
  }

  private numberOf(route: string): number {
    if (this.names.length === 0) this.names.push(NO_REQUEST);
    const name = this.names.length < MAX_ROUTES || this.known.has(route) ? route : OTHER;
    let at = this.known.get(name);
    if (at === undefined) {
      at = this.names.push(name) - 1;
      this.known.set(name, at);
    }
    return at;
  }

  // For each context the number of its route; null where no context has one.
  get numbers(): Uint16Array | null {
    return this.names.length ? Uint16Array.from(this.ofContext) : null;
  }
}

// Routes are functions to the views, after those of the recording.
export function withRoutes(
  texts: Texts,
  functions: FunctionColumns,
  names: string[],
): { texts: Texts; functions: FunctionColumns; routes: FunctionIndex[] } {
  if (names.length === 0) return { texts, functions, routes: [] };
  const added = names.map((name) => new TextEncoder().encode(name));
  const bytes = new Uint8Array(texts.bytes.length + added.reduce((sum, each) => sum + each.length, 0));
  bytes.set(texts.bytes);
  const ends = new Uint32Array(texts.ends.length + names.length);
  ends.set(texts.ends);
  let end = texts.bytes.length;
  added.forEach((each, at) => {
    bytes.set(each, end);
    ends[texts.ends.length + at] = end += each.length;
  });
  const rows = functions.name.length;
  const longer = <C>(values: C, fill: (at: number) => number): C => {
    const old = plain<Int32Array>(values);
    const made = new (old.constructor as new (length: number) => Int32Array)(rows + names.length);
    made.set(old);
    for (let at = 0; at < names.length; at++) made[rows + at] = fill(at);
    return column<C>(made);
  };
  return {
    texts: new Texts(bytes, ends),
    functions: {
      name: longer(functions.name, (at) => texts.ends.length + at),
      file: longer(functions.file, () => -1),
      line: longer(functions.line, () => 0),
      column: longer(functions.column, () => 0),
      category: longer(functions.category, () => Category.App),
    },
    routes: names.map((_, at) => (rows + at) as FunctionIndex),
  };
}

// What the samples of each route weigh.
export function routeWeights(samples: SampleColumns, routes: number): number[] {
  const weights = Array.from({ length: routes }, () => 0);
  if (routes === 0) return weights;
  for (let row = 0; row < samples.time.length; row++)
    weights[samples.route?.[row] ?? 0] += weightOf(samples, row);
  return weights;
}

// The same samples with their route as the root of their stacks.
export function hungByRoute(profile: Profile): Profile {
  const { frames, routes } = profile;
  if (routes.length === 0) return profile;
  const firstFrame = frames.fn.length;
  const stacks = new HungStacks(profile, firstFrame);
  const samples = stacks.hang(profile.samples);
  const base = profile.base && stacks.hang(profile.base);
  const longer = <T extends Uint8Array | Uint32Array>(values: T): T => {
    const made = new (values.constructor as new (length: number) => T)(firstFrame + routes.length);
    made.set(values);
    return made;
  };
  const fn = new Int32Array(firstFrame + routes.length);
  fn.set(plain(frames.fn));
  fn.set(routes, firstFrame);
  return {
    ...profile,
    frames: {
      fn: column(fn),
      line: column(longer(plain<Uint32Array>(frames.line))),
      tier: column(longer(plain<Uint8Array>(frames.tier))),
      kind: column(longer(plain<Uint8Array>(frames.kind))),
    },
    stacks: {
      parent: column(Int32Array.from(stacks.parent)),
      frame: column(Int32Array.from(stacks.frame)),
    },
    samples,
    base,
  };
}

// Makes a stack for each pair of a route and a stack that samples have.
class HungStacks {
  readonly parent: number[] = [];
  readonly frame: number[] = [];
  // By route and old row; the row after the last is no stack.
  private readonly rowOf = new Map<number, number>();

  constructor(
    private readonly profile: Profile,
    private readonly firstFrame: number,
  ) {}

  hang(samples: SampleColumns): SampleColumns {
    const stack = new Int32Array(samples.stack.length);
    for (let row = 0; row < stack.length; row++)
      stack[row] = this.hung(samples.route?.[row] ?? 0, samples.stack[row]);
    return { ...samples, stack: column<Column<number, StackIndex>>(stack) };
  }

  private hung(route: number, stack: StackIndex): number {
    const { stacks } = this.profile;
    const rows = stacks.parent.length + 1;
    const keyOf = (row: number) => route * rows + (row < 0 ? rows - 1 : row);
    // Up to what is known already, then back.
    const path: StackIndex[] = [];
    let at = stack;
    for (; at >= 0 && !this.rowOf.has(keyOf(at)); at = stacks.parent[at]) path.push(at);
    let below = this.rowOf.get(keyOf(at));
    if (below === undefined) below = this.add(keyOf(-1), -1, (this.firstFrame + route) as FrameIndex);
    for (let left = path.length - 1; left >= 0; left--)
      below = this.add(keyOf(path[left]), below, stacks.frame[path[left]]);
    return below;
  }

  private add(key: number, parent: number, frame: FrameIndex): number {
    const row = this.parent.push(parent) - 1;
    this.frame.push(frame);
    this.rowOf.set(key, row);
    return row;
  }
}
