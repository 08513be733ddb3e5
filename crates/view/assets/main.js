// Ties the parts together: the state, the address bar, the keys and the pointer.

const state = {
  view: "flame", query: "", isRegExp: false, isIcicle: false, hasInternals: false, threads: null,
  top: { sort: "self", isRising: false, limit: TOP_ROWS },
};
const shown = { profile: null, tree: null, focus: 0, hits: null, hover: -1, selected: -1, isIcicle: false };
let flame;

function fail(message) {
  byId("message").textContent = message;
  byId("message").hidden = false;
  byId("flame").hidden = byId("top").hidden = true;
}

// Counts again for the chosen threads, then shows everything.
function recount() {
  const { profile } = shown;
  const isShown = new Uint8Array(profile.threads.length);
  for (const index of state.threads ?? isShown.keys()) isShown[index] = 1;
  shown.tree = treeOf(profile, isShown, state.hasInternals);
  shown.focus = 0;
  shown.hover = shown.selected = -1;
  showShares(profile, shown.tree);
  showLegend(profile, shown.tree);
  showThreads(profile, state.threads, (threads) => {
    state.threads = threads;
    recount();
    remember(true);
  });
}

function search() {
  byId("query").classList.remove("bad");
  try {
    shown.hits = findFunctions(shown.profile, state.query, state.isRegExp);
  } catch {
    byId("query").classList.add("bad");
    shown.hits = null;
  }
  refresh();
}

function refresh() {
  const { profile, tree, focus, hits } = shown;
  shown.isIcicle = state.isIcicle;
  const isFlame = state.view === "flame";
  byId("flame").hidden = !isFlame;
  byId("top").hidden = isFlame;
  byId("tab-flame").ariaSelected = String(isFlame);
  byId("tab-top").ariaSelected = String(!isFlame);
  byId("icicle").ariaPressed = String(state.isIcicle);
  byId("internals").ariaPressed = String(state.hasInternals);
  byId("reset").disabled = focus === 0;
  byId("query").value = state.query;
  byId("is-regexp").checked = state.isRegExp;
  byId("matched").textContent = byId("query").classList.contains("bad") ? "not a regular expression"
    : hits ? `matched ${percent(matchedWeight(tree, hits, focus), tree.total[focus])}${focus ? " of view" : ""}` : "";
  if (isFlame) {
    flame.resize();
    flame.schedule();
  } else {
    const change = (part) => { Object.assign(state.top, part); refresh(); };
    showTop(profile, tree, hits, state.top, change, reveal);
  }
  announce();
}

// The line at the bottom: what is selected or zoomed into.
function announce() {
  const node = shown.selected >= 0 ? shown.selected : shown.focus;
  const { profile, tree } = shown;
  const name = shortName(nameOf(profile, tree.fn[node])).slice(0, 100);
  byId("status").textContent = node === 0 && shown.selected < 0 ? ""
    : `${name}: total ${percent(tree.total[node], tree.total[0])}, self ${percent(tree.self[node], tree.total[0])}`;
}

function zoom(node) {
  shown.focus = Math.max(0, node);
  shown.hover = -1;
  showTooltip(shown, -1);
  refresh();
  remember(true);
}

function reveal(fn) {
  state.view = "flame";
  state.query = nameOf(shown.profile, fn);
  state.isRegExp = false;
  shown.focus = 0;
  search();
  remember(true);
}

// Writes the state behind the # of the address, so a link or a reload shows the same.
function remember(isStep) {
  const parts = new URLSearchParams();
  if (state.view !== "flame") parts.set("v", state.view);
  if (state.query) parts.set("q", state.query);
  if (state.isRegExp) parts.set("re", "1");
  if (state.isIcicle) parts.set("o", "icicle");
  if (state.hasInternals) parts.set("raw", "1");
  if (state.threads) parts.set("t", [...state.threads].join("."));
  if (shown.focus) parts.set("x", shown.focus);
  const hash = `#${parts}`;
  if (hash === (location.hash || "#")) return;
  try {
    history[isStep ? "pushState" : "replaceState"](null, "", hash);
  } catch {
    // A page inside a sandboxed frame has no address of its own to change.
  }
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1));
  state.view = parts.get("v") === "top" ? "top" : "flame";
  state.query = parts.get("q") ?? "";
  state.isRegExp = parts.has("re");
  state.isIcicle = parts.get("o") === "icicle";
  state.hasInternals = parts.has("raw");
  const threads = (parts.get("t") ?? "").split(".").filter(Boolean).map(Number)
    .filter((index) => index in shown.profile.threads);
  state.threads = threads.length ? new Set(threads) : null;
  recount();
  const focus = Number(parts.get("x") ?? 0);
  shown.focus = Number.isInteger(focus) && focus > 0 && focus < shown.tree.size ? focus : 0;
  search();
}

// Walks from box to box: away from the root, towards it, or among siblings.
function walk(direction) {
  const { tree, focus } = shown;
  let node = shown.selected;
  if (node < 0) node = focus;
  else if (direction === "out" && tree.end[node] > node + 1) node = node + 1;
  else if (direction === "in" && node > 0) node = tree.parent[node];
  else if (direction === "next" && node > 0 && tree.end[node] < tree.end[tree.parent[node]]) node = tree.end[node];
  else if (direction === "previous" && node > 0) {
    let sibling = tree.parent[node] + 1;
    while (sibling < node && tree.end[sibling] < node) sibling = tree.end[sibling];
    node = sibling;
  }
  shown.selected = node;
  flame.showRow(tree.depth[node]);
  flame.drawMarks();
  announce();
}

function escape() {
  if (byId("threads").open) byId("threads").open = false;
  else if (state.query) {
    state.query = "";
    search();
    remember(false);
  } else if (shown.selected >= 0) {
    shown.selected = -1;
    refresh();
  } else zoom(0);
}

const ACTIONS = {
  "/": () => { byId("query").focus(); byId("query").select(); },
  "?": () => byId("help").showModal(),
  0: () => zoom(0),
  1: () => setView("flame"),
  2: () => setView("top"),
  i: () => { state.isIcicle = !state.isIcicle; refresh(); remember(false); },
  h: () => { state.hasInternals = !state.hasInternals; recount(); search(); remember(false); },
  r: () => { state.isRegExp = !state.isRegExp; search(); remember(false); },
  t: () => { byId("threads").open = !byId("threads").open; },
  Escape: escape,
  Backspace: () => zoom(shown.tree.parent[shown.focus]),
  Enter: () => { if (shown.selected >= 0) zoom(shown.selected); },
  ArrowUp: () => walk(state.isIcicle ? "in" : "out"),
  ArrowDown: () => walk(state.isIcicle ? "out" : "in"),
  ArrowLeft: () => walk("previous"),
  ArrowRight: () => walk("next"),
};

function setView(view) {
  state.view = view;
  refresh();
  remember(true);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const isTyping = event.target.matches?.("input[type=search]");
  if (isTyping && event.key === "Escape") {
    event.target.blur();
    if (state.query) escape();
    return;
  }
  const isWalk = event.key.startsWith("Arrow") || event.key === "Enter" || event.key === "Backspace";
  const isOnControl = event.target.matches?.("button, summary, input");
  if (isTyping || (isWalk && (state.view !== "flame" || isOnControl))) return;
  const action = Object.hasOwn(ACTIONS, event.key) ? ACTIONS[event.key] : null;
  if (!action) return;
  event.preventDefault();
  action();
}

function listen() {
  const canvas = byId("canvas");
  const nodeUnder = (event) => {
    const box = canvas.getBoundingClientRect();
    return flame.nodeAt(event.clientX - box.left, event.clientY - box.top);
  };
  canvas.addEventListener("pointermove", (event) => {
    const node = nodeUnder(event);
    if (node !== shown.hover) {
      shown.hover = node;
      flame.drawMarks();
    }
    canvas.style.cursor = node >= 0 ? "pointer" : "default";
    showTooltip(shown, node, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => {
    shown.hover = -1;
    showTooltip(shown, -1);
    flame.drawMarks();
  });
  canvas.addEventListener("click", (event) => {
    const node = nodeUnder(event);
    if (node < 0) return;
    shown.selected = -1;
    zoom(node);
  });
  byId("query").addEventListener("input", (event) => {
    state.query = event.target.value;
    search();
    remember(false);
  });
  byId("is-regexp").addEventListener("change", ACTIONS.r);
  byId("tab-flame").addEventListener("click", ACTIONS[1]);
  byId("tab-top").addEventListener("click", ACTIONS[2]);
  byId("icicle").addEventListener("click", ACTIONS.i);
  byId("internals").addEventListener("click", ACTIONS.h);
  byId("reset").addEventListener("click", ACTIONS[0]);
  byId("help-open").addEventListener("click", ACTIONS["?"]);
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", (event) => {
    if (!byId("threads").contains(event.target)) byId("threads").open = false;
  });
  addEventListener("popstate", recall);
}

async function start() {
  // The recording follows the script.
  if (document.readyState === "loading") {
    await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
  }
  const pieces = [...document.querySelectorAll("script.recording")];
  shown.profile = await decodeRecording(pieces.map((piece) => piece.textContent));
  for (const piece of pieces) piece.remove();
  showStart(shown.profile.about);
  if (shown.profile.samples.weight.length === 0) {
    fail("No samples were recorded.");
    return;
  }
  flame = new Flame(byId("scroller"), byId("spacer"), byId("canvas"), byId("marks"), shown);
  fillHelp();
  listen();
  recall();
  document.body.dataset.ready = "yes";
}

start().catch((error) => fail(`The recording cannot be shown: ${error.message}`));
