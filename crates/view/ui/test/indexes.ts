// Row numbers of different tables do not mix. Nothing here runs: tsc fails when a line that must not
// compile does.

import type {
  FrameIndex,
  FunctionIndex,
  NodeIndex,
  StackIndex,
  TextIndex,
  ThreadIndex,
} from "../src/model/indexes";
import type { Names, Profile } from "../src/model/profile";
import { nameOf } from "../src/model/profile";
import type { Tree } from "../src/model/tree";

export function mixes(profile: Profile, names: Names, tree: Tree, fn: FunctionIndex, node: NodeIndex): void {
  const name: TextIndex = names.functions.name[fn];
  const frame: FrameIndex = profile.stacks.frame[0 as StackIndex];
  const caller: FunctionIndex = tree.fn[tree.parent[node]];
  // @ts-expect-error: a node is no function
  nameOf(names, node);
  // @ts-expect-error: nor is a text
  nameOf(names, name);
  // @ts-expect-error: a tree is read by node
  tree.total[fn] = 0;
  // @ts-expect-error: a plain number is no row
  tree.total[1] = 0;
  // @ts-expect-error: frames are read by frame
  profile.frames.fn[caller];
  // @ts-expect-error: threads are read by thread
  names.threads[frame];
  // @ts-expect-error: a sample's stack is no thread
  const thread: ThreadIndex = profile.samples.stack[0];
  void thread;
}
