// Counts: the call tree of the chosen threads, weights of functions, shares, search hits.
// Nothing here recurses: stacks can be deeper than a browser's own.

const ALL = -1; // the function of the tree's root
const NO_STACK = -2; // the function of samples without a stack
const TIERS = 5;

// A tree in preorder, heaviest child first. Node 0 is the root; `end` is the first node after a
// node's subtree, so a subtree is the range from the node to its end.
// Internal frames are left out unless asked for; their time goes to their callers.
function treeOf(profile, isShown, hasInternals) {
  const { stacks, samples } = profile;
  const own = new Float64Array(stacks.parent.length);
  let withoutStack = 0;
  for (let row = 0; row < samples.weight.length; row++) {
    if (!isShown[samples.thread[row]]) continue;
    const stack = samples.stack[row];
    if (stack < 0) withoutStack += samples.weight[row];
    else own[stack] += samples.weight[row];
  }
  const totals = own.slice();
  for (let row = totals.length - 1; row >= 0; row--) {
    if (stacks.parent[row] >= 0) totals[stacks.parent[row]] += totals[row];
  }
  const merged = mergeStacks(profile, own, totals, withoutStack, hasInternals);
  return inPreorder(merged);
}

// Stacks of the same functions become one node, whatever their lines and tiers.
function mergeStacks(profile, own, totals, withoutStack, hasInternals) {
  const { stacks, frames, functions } = profile;
  const most = totals.length + 2;
  const fn = new Int32Array(most);
  const parent = new Int32Array(most);
  const self = new Float64Array(most);
  const total = new Float64Array(most);
  const tierWeights = new Float64Array(most * TIERS);
  const notInlined = new Uint8Array(most);
  const nodeOf = new Int32Array(totals.length);
  const known = new Map();
  fn[0] = ALL;
  parent[0] = -1;
  let size = 1;
  for (let row = 0; row < totals.length; row++) {
    if (totals[row] === 0) continue;
    const frame = stacks.frame[row];
    const below = stacks.parent[row] < 0 ? 0 : nodeOf[stacks.parent[row]];
    if (stacks.parent[row] < 0) total[0] += totals[row];
    if (!hasInternals && categoryOf(profile, frames.fn[frame]).key === "internal") {
      nodeOf[row] = below;
      self[below] += own[row];
      continue;
    }
    const key = below * functions.name.length + frames.fn[frame];
    let node = known.get(key);
    if (node === undefined) {
      node = size++;
      known.set(key, node);
      fn[node] = frames.fn[frame];
      parent[node] = below;
    }
    nodeOf[row] = node;
    self[node] += own[row];
    total[node] += totals[row];
    tierWeights[node * TIERS + frames.tier[frame]] += totals[row];
    if (!frames.isInlined[frame]) notInlined[node] = 1;
  }
  if (withoutStack > 0) {
    fn[size] = NO_STACK;
    self[size] = total[size] = withoutStack;
    notInlined[size] = 1;
    total[0] += withoutStack;
    size++;
  }
  return { size, fn, parent, self, total, tierWeights, notInlined };
}

function inPreorder(merged) {
  const { size, fn, parent, self, total, tierWeights, notInlined } = merged;
  // The children of every node side by side, the heaviest first.
  const firstChild = new Int32Array(size + 1);
  for (let node = 1; node < size; node++) firstChild[parent[node] + 1]++;
  for (let node = 0; node < size; node++) firstChild[node + 1] += firstChild[node];
  const children = new Int32Array(size);
  const filled = firstChild.slice();
  for (let node = 1; node < size; node++) children[filled[parent[node]]++] = node;
  const heaviestFirst = (left, right) => total[right] - total[left] || left - right;
  for (let node = 0; node < size; node++) {
    if (firstChild[node + 1] - firstChild[node] > 1) {
      children.subarray(firstChild[node], firstChild[node + 1]).sort(heaviestFirst);
    }
  }
  const tree = {
    size,
    fn: new Int32Array(size), parent: new Int32Array(size), depth: new Int32Array(size),
    end: new Int32Array(size), start: new Float64Array(size), self: new Float64Array(size),
    total: new Float64Array(size), tier: new Uint8Array(size), isInlined: new Uint8Array(size),
    rows: 0,
  };
  const waiting = [0];
  const placeIn = new Int32Array(size);
  const nextStart = new Float64Array(size);
  for (let place = 0; place < size; place++) {
    const node = waiting.pop();
    placeIn[node] = place;
    const below = place === 0 ? -1 : placeIn[parent[node]];
    tree.fn[place] = fn[node];
    tree.parent[place] = below;
    tree.depth[place] = place === 0 ? 0 : tree.depth[below] + 1;
    tree.start[place] = nextStart[place] = place === 0 ? 0 : nextStart[below];
    if (place > 0) nextStart[below] += total[node];
    tree.self[place] = self[node];
    tree.total[place] = total[node];
    tree.isInlined[place] = place > 0 && !notInlined[node] ? 1 : 0;
    tree.rows = Math.max(tree.rows, tree.depth[place] + 1);
    for (let tier = 1; tier < TIERS; tier++) {
      const heaviest = tierWeights[node * TIERS + tree.tier[place]];
      if (tierWeights[node * TIERS + tier] > heaviest) tree.tier[place] = tier;
    }
    for (let at = firstChild[node + 1] - 1; at >= firstChild[node]; at--) waiting.push(children[at]);
  }
  for (let place = size - 1; place >= 0; place--) {
    tree.end[place] = Math.max(tree.end[place], place + 1);
    const below = tree.parent[place];
    if (below >= 0) tree.end[below] = Math.max(tree.end[below], tree.end[place]);
  }
  return tree;
}

// Self and total weight by function; a function that calls itself counts once.
function functionWeights(tree, functions) {
  const self = new Float64Array(functions);
  const total = new Float64Array(functions);
  const active = new Int32Array(functions);
  const open = [];
  for (let node = 1; node < tree.size; node++) {
    while (open.length && tree.end[open.at(-1)] <= node) active[tree.fn[open.pop()]]--;
    const fn = tree.fn[node];
    if (fn < 0) continue;
    self[fn] += tree.self[node];
    if (active[fn]++ === 0) total[fn] += tree.total[node];
    open.push(node);
  }
  return { self, total };
}

// What the samples were doing. A sample is garbage collection when any frame is; else its leaf
// decides.
function sharesOf(tree, profile) {
  const shares = { javascript: 0, native: 0, kernel: 0, gc: 0, idle: 0, unknown: 0 };
  const inGc = new Uint8Array(tree.size);
  for (let node = 1; node < tree.size; node++) {
    const category = categoryOf(profile, tree.fn[node]);
    inGc[node] = category.key === "gc" || inGc[tree.parent[node]] ? 1 : 0;
    shares[inGc[node] ? "gc" : category.share] += tree.self[node];
  }
  return shares;
}

// Which functions a search finds, by name and place; null without a search.
function findFunctions(profile, query, isRegExp) {
  if (!query) return null;
  const pattern = isRegExp ? new RegExp(query, "i") : null;
  const wanted = query.toLowerCase();
  const hits = new Uint8Array(profile.functions.name.length);
  for (let fn = 0; fn < hits.length; fn++) {
    const text = `${nameOf(profile, fn)} ${placeOf(profile, fn)}`;
    hits[fn] = (pattern ? pattern.test(text) : text.toLowerCase().includes(wanted)) ? 1 : 0;
  }
  return hits;
}

// The weight of what a search finds under `node`; hits on top of one another count once.
function matchedWeight(tree, hits, node) {
  let weight = 0;
  for (let at = node; at < tree.end[node];) {
    const isHit = tree.fn[at] >= 0 && hits[tree.fn[at]];
    if (isHit) weight += tree.total[at];
    at = isHit ? tree.end[at] : at + 1;
  }
  return weight;
}
