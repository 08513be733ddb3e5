// Which functions a search finds, and how much of a tree they are.

import type { FunctionIndex, NodeIndex } from "./indexes";
import { functionCount, type Names, nameOf, placeOf } from "./profile";
import type { Tree } from "./tree";

export interface Query {
  text: string;
  isRegExp: boolean;
  isExact: boolean;
} // exact: as typed, upper and lower case

// One byte for each function and package. Throws where the text is no regular expression.
export function findFunctions(names: Names, query: Query): Uint8Array {
  const hits = new Uint8Array(functionCount(names) + names.packages.length);
  const pattern = query.isRegExp ? new RegExp(query.text, query.isExact ? "u" : "iu") : null;
  const wanted = query.isExact ? query.text : query.text.toLowerCase();
  for (let fn = 0 as FunctionIndex; fn < hits.length; fn++) {
    const [name, place] = [nameOf(names, fn), placeOf(names, fn)];
    const text = `${name} ${place}`;
    // A pattern may be anchored to the name, to the place, or run over both.
    const isHit = pattern
      ? pattern.test(name) || pattern.test(place) || pattern.test(text)
      : (query.isExact ? text : text.toLowerCase()).includes(wanted);
    hits[fn] = isHit ? 1 : 0;
  }
  return hits;
}

// The weight of what a search finds under `node`; hits on top of one another count once.
export function matchedWeight(tree: Tree, hits: Uint8Array, node: NodeIndex): number {
  let weight = 0;
  for (let at = node; at < tree.end[node]; ) {
    const isHit = tree.fn[at] >= 0 && hits[tree.fn[at]];
    if (isHit) weight += tree.total[at];
    at = isHit ? tree.end[at] : ((at + 1) as NodeIndex);
  }
  return weight;
}
