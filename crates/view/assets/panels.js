// Everything around the flame graph: summary, legend, thread picker, top table, tooltip.
// Names from the recording only ever become text nodes.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function swatch(fill) {
  const made = element("i", { className: "swatch" });
  made.style.background = fill;
  return made;
}

function showStart(about) {
  const started = about.startedUnix ? new Date(about.startedUnix / 1e6).toLocaleString() : "";
  byId("when").textContent = [started, about.host].filter(Boolean).join(" · ");
}

function showShares(profile, tree) {
  const shares = sharesOf(tree, profile);
  const whole = tree.total[0];
  const present = SHARES.filter(([key]) => shares[key] > 0);
  byId("shares").replaceChildren(...present.map(([key, label, fill]) => {
    const part = element("span", { title: `${label} ${percent(shares[key], whole)}` });
    part.style.flexGrow = String(shares[key] / whole);
    part.style.background = fill;
    return part;
  }));
  byId("shares").ariaLabel = present.map(([key, label]) => `${label} ${percent(shares[key], whole)}`).join(", ");
  byId("share-legend").replaceChildren(...present.map(([key, label, fill]) =>
    element("li", {}, swatch(fill), `${label} ${percent(shares[key], whole)}`)));
}

function showLegend(profile, tree) {
  const used = new Set();
  let hasTiers = false;
  for (let node = 1; node < tree.size; node++) {
    used.add(categoryOf(profile, tree.fn[node]));
    hasTiers ||= tree.tier[node] > 0;
  }
  const items = CATEGORIES.filter((category) => used.has(category))
    .map((category) => element("span", {}, swatch(category.fill), category.label));
  if (hasTiers) {
    items.push(element("span", { className: "tiers" }, "JS tier:",
      ...[4, 3, 2, 1].flatMap((tier) => [swatch(shadeOf(CATEGORIES[0], tier)), TIER_LABELS[tier]])));
  }
  byId("legend").replaceChildren(...items);
}

function threadName(profile, index) {
  const thread = profile.threads[index];
  const process = profile.processes[thread.process];
  const name = thread.name || process?.name || "(unnamed)";
  const owner = profile.processes.length > 1 ? `, ${process?.name || "process"} ${process?.pid}` : "";
  return { name, detail: `${ROLES[thread.role] ?? "other"}, tid ${thread.tid}${owner}` };
}

// `chosen` is a set of thread numbers, or null for all.
function showThreads(profile, chosen, choose) {
  const weights = new Float64Array(profile.threads.length);
  let whole = 0;
  for (let row = 0; row < profile.samples.weight.length; row++) {
    weights[profile.samples.thread[row]] += profile.samples.weight[row];
    whole += profile.samples.weight[row];
  }
  const busy = [...weights.keys()].filter((index) => weights[index] > 0)
    .sort((left, right) => weights[right] - weights[left]);
  const picker = byId("threads");
  picker.hidden = busy.length < 2;
  const label = chosen === null ? `All ${busy.length} threads`
    : chosen.size === 1 ? threadName(profile, [...chosen][0]).name
    : `${chosen.size} of ${busy.length} threads`;
  picker.querySelector("summary").textContent = label;
  const rows = busy.map((index) => {
    const { name, detail } = threadName(profile, index);
    const box = element("input", { type: "checkbox", checked: chosen === null || chosen.has(index) });
    box.addEventListener("change", () => {
      const next = new Set(chosen ?? busy);
      if (box.checked) next.add(index);
      else next.delete(index);
      choose(next.size === busy.length || next.size === 0 ? null : next);
    });
    const only = element("button", { textContent: "only", title: "Show this thread alone" });
    only.addEventListener("click", () => choose(new Set([index])));
    return element("div", { className: "thread" },
      element("label", {}, box, element("b", { textContent: percent(weights[index], whole) }),
        element("span", { className: "name", textContent: name, dir: "auto", title: name }),
        element("span", { className: "dim", textContent: detail })), only);
  });
  const all = element("button", { textContent: "All threads", disabled: chosen === null });
  all.addEventListener("click", () => choose(null));
  picker.querySelector(".sheet").replaceChildren(all, ...rows);
}

const TOP_COLUMNS = [["self", "Self"], ["total", "Total"], ["name", "Function"], ["place", "Where"]];
const TOP_ROWS = 300;

// `state` is { sort, isRising, limit }; `reveal` shows a function in the flame graph.
function showTop(profile, tree, hits, state, change, reveal) {
  const { self, total } = functionWeights(tree, profile.functions.name.length);
  const whole = tree.total[0];
  const found = [...total.keys()].filter((fn) => total[fn] > 0 && (!hits || hits[fn]));
  const order = {
    self: (left, right) => self[right] - self[left] || total[right] - total[left],
    total: (left, right) => total[right] - total[left] || self[right] - self[left],
    name: (left, right) => nameOf(profile, left).localeCompare(nameOf(profile, right)),
    place: (left, right) => placeOf(profile, left).localeCompare(placeOf(profile, right)),
  }[state.sort];
  found.sort(state.isRising ? (left, right) => order(right, left) : order);
  const heads = TOP_COLUMNS.map(([key, label]) => {
    const isSorted = state.sort === key;
    const arrow = isSorted ? (state.isRising ? " ▴" : " ▾") : "";
    const button = element("button", { textContent: label + arrow });
    button.addEventListener("click", () => change({ sort: key, isRising: isSorted && !state.isRising }));
    const head = element("th", { scope: "col", className: key }, button);
    head.ariaSort = isSorted ? (state.isRising ? "ascending" : "descending") : "none";
    return head;
  });
  const share = (value) => {
    const bar = element("span", { className: "bar" });
    bar.style.width = `${whole > 0 ? (value / whole) * 100 : 0}%`;
    return element("td", { className: "number", title: weightText(value, profile.about.unit) },
      bar, element("span", { textContent: value > 0 ? percent(value, whole) : "–" }));
  };
  const rows = found.slice(0, state.limit).map((fn) => {
    const category = categoryOf(profile, fn);
    const name = element("button", { textContent: nameOf(profile, fn).slice(0, 500), title: "Show in the flame graph", dir: "auto" });
    name.addEventListener("click", () => reveal(fn));
    return element("tr", {}, share(self[fn]), share(total[fn]),
      element("td", { className: "name" }, element("div", {}, swatch(category.fill), name)),
      element("td", { className: "place", title: placeOf(profile, fn) },
        element("bdi", { textContent: placeOf(profile, fn) || category.label })));
  });
  const more = element("button", { textContent: `Show more (${count(found.length)} altogether)` });
  more.addEventListener("click", () => change({ limit: state.limit * 4 }));
  byId("top").replaceChildren(
    element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)),
    ...(found.length > state.limit ? [more] : []),
    ...(found.length === 0 ? [element("p", { textContent: "No function matches." })] : []));
}

function describe(shown, node) {
  const { profile, tree, focus } = shown;
  const fn = tree.fn[node];
  const category = categoryOf(profile, fn);
  const kind = [category.label, TIER_LABELS[tree.tier[node]], tree.isInlined[node] ? "inlined" : ""];
  const share = (value) => `${weightText(value, profile.about.unit)}, ${percent(value, tree.total[0])}`
    + (focus ? `, ${percent(value, tree.total[focus])} of view` : "");
  return {
    name: nameOf(profile, fn),
    place: placeOf(profile, fn),
    kind: fn >= 0 ? kind.filter(Boolean).join(" · ") : "",
    fill: fn === ALL ? UNKNOWN.fill : shadeOf(category, tree.tier[node]),
    total: share(tree.total[node]),
    self: share(tree.self[node]),
  };
}

function showTooltip(shown, node, x, y) {
  const tooltip = byId("tooltip");
  tooltip.hidden = node < 0;
  if (node < 0) return;
  const text = describe(shown, node);
  tooltip.replaceChildren(
    element("strong", { textContent: text.name.slice(0, 600), dir: "auto" }),
    ...(text.place ? [element("div", { className: "place", textContent: text.place.slice(-300), dir: "auto" })] : []),
    ...(text.kind ? [element("div", {}, swatch(text.fill), text.kind)] : []),
    element("dl", {}, element("dt", { textContent: "total" }), element("dd", { textContent: text.total }),
      element("dt", { textContent: "self" }), element("dd", { textContent: text.self })));
  const box = tooltip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8));
  const fitsBelow = y + 18 + box.height < innerHeight;
  tooltip.style.left = `${left}px`;
  tooltip.style.top = `${fitsBelow ? y + 18 : Math.max(4, y - box.height - 12)}px`;
}

const KEYS = [
  ["/", "search"], ["r", "search by regular expression"], ["click, Enter", "zoom into a box"],
  ["Backspace", "zoom out by one box"], ["0", "zoom out altogether"], ["arrows", "walk from box to box"],
  ["h", "show or hide internal frames"], ["i", "root at the top or at the bottom"], ["1, 2", "flame graph, top functions"],
  ["t", "choose threads"], ["Esc", "close, clear the search, zoom out"], ["?", "these keys"],
];

function fillHelp() {
  byId("help").querySelector("dl").replaceChildren(...KEYS.flatMap(([key, what]) =>
    [element("dt", { textContent: key }), element("dd", { textContent: what })]));
}
