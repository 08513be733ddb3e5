// What threads were doing when samples were taken, where that was recorded.

export enum State {
  Running,
  Gc,
  Runnable,
  Waiting,
  Idle,
}
export const STATES = [State.Running, State.Gc, State.Runnable, State.Waiting, State.Idle] as const;
export const STATE_LABELS = ["running", "GC", "runnable", "waiting", "idle"];

// A state, and what was waited for where it is a wait.
export interface StateKind {
  state: State;
  wait: string;
}

export const kindLabel = ({ state, wait }: StateKind): string =>
  wait ? `${STATE_LABELS[state]} for ${wait}` : STATE_LABELS[state];

// The values of the label `state`, as Rust writes them.
const WORDS: Record<string, State> = {
  "on-cpu": State.Running,
  runnable: State.Runnable,
  waiting: State.Waiting,
  idle: State.Idle,
};
// Samples have a byte for their kind.
const MAX_KINDS = 255;

// The kinds of states of a recording, and which of them each context has: one more than its place,
// 0 for none.
export class StateTable {
  readonly kinds: StateKind[] = [];
  private readonly known = new Map<string, number>();
  private ofContext: number[] = [0]; // the first context is the empty one

  add(labels: ReadonlyMap<string, string>): void {
    this.ofContext.push(this.kindOf(labels.get("state"), labels.get("wait") ?? ""));
  }

  private kindOf(word: string | undefined, wait: string): number {
    const state = word === undefined ? undefined : WORDS[word];
    if (state === undefined) return 0;
    const kind = { state, wait: state === State.Waiting ? wait || "something else" : "" };
    const key = kindLabel(kind);
    let at = this.known.get(key);
    if (at === undefined && this.kinds.length < MAX_KINDS) {
      at = this.kinds.push(kind);
      this.known.set(key, at);
    }
    return at ?? 0;
  }

  // For each context the number of its kind; null where no context has one.
  get numbers(): Uint8Array | null {
    return this.kinds.length ? Uint8Array.from(this.ofContext) : null;
  }
}
