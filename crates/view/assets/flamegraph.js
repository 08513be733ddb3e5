// What a flame graph does in a browser: click to zoom, search, tell about a box. Keys and address
// parameters are FlameGraph's: Ctrl-F or F3 searches, Ctrl-I minds no case, ?x=..&y=..&s=.. is the
// state. Names are read and written as text only. The file that holds this declares `settings`
// and wraps both in a function, so that one page can hold many flame graphs.
const root = document.currentScript.ownerSVGElement;
const part = (id) => root.querySelector("#" + id);
const frames = part("frames"), details = part("details"), matched = part("matched");
const unzoom = part("unzoom"), search = part("search"), ignoreCase = part("ignorecase");
const whole = Number(frames.getAttribute("total_samples"));

// Every box in the order of the file: the one it stands on comes before it.
const boxes = Array.from(frames.querySelectorAll("g"), (group) => {
  const rect = group.querySelector("rect");
  return {
    group, rect, text: group.querySelector("text"), title: group.querySelector("title"),
    start: Number(rect.getAttribute("fg:x")), weight: Number(rect.getAttribute("fg:w")),
    top: Number(rect.getAttribute("y")), fill: rect.getAttribute("fill"), isShown: true, isFound: false,
  };
});
const boxOf = new Map(boxes.map((box) => [box.group, box]));
const isBelow = (lower, upper) => settings.isInverted ? lower.top < upper.top : lower.top > upper.top;
const nameOf = (box) => box.title.textContent.replace(/ \([^(]*\)$/, "");

let width = settings.isFluid ? 0 : frames.width.baseVal.value;
let zoomed = null, from = 0, to = whole;
let term = "", mindsCase = true;

// Puts every shown box where it belongs and as much of its name on it as fits.
function place() {
  const scale = 100 / (to - from);
  const written = [];
  for (const box of boxes) {
    if (!box.isShown) continue;
    const left = Math.max(box.start, from), right = Math.min(box.start + box.weight, to);
    const percent = (right - left) * scale;
    box.rect.setAttribute("x", (left - from) * scale + "%");
    box.rect.setAttribute("width", percent + "%");
    const room = percent * width / 100 - 2 * settings.indent;
    const letters = Math.floor(room / settings.letterWidth);
    const label = letters < 3 ? "" : cut(nameOf(box), letters);
    if (!label && !box.text) continue;
    const text = textOf(box);
    text.setAttribute("x", (left - from) * scale + 100 * settings.indent / width + "%");
    if (text.textContent !== label) text.textContent = label;
    if (label) written.push([box, room, letters]);
  }
  // Letters differ in width. All are measured before any is changed: that lays out only once.
  const tooWide = written.map(([box, room, letters]) => [box, letters, room / box.text.getComputedTextLength()])
    .filter(([, , share]) => share < 1);
  for (const [box, letters, share] of tooWide) {
    const shown = Math.min(letters, box.text.textContent.length);
    const fitting = Math.floor(shown * share) - 1;
    box.text.textContent = fitting < 3 ? "" : cut(nameOf(box), fitting);
  }
}

// The text of a box. Boxes that were too narrow for any come without.
function textOf(box) {
  if (!box.text) {
    box.text = document.createElementNS(root.namespaceURI, "text");
    box.text.setAttribute("y", box.top + settings.baseline);
    box.rect.after(box.text);
  }
  return box.text;
}

function cut(name, letters) {
  if (name.length <= letters) return name;
  const kept = letters - 2;
  return settings.cutsLeft ? ".." + name.slice(name.length - kept) : name.slice(0, kept) + "..";
}

// Shows what stands on a box over the whole width, and below it faintly what it stands on.
function zoomTo(box) {
  zoomed = box && box.weight < whole ? box : null;
  from = zoomed ? zoomed.start : 0;
  to = zoomed ? zoomed.start + zoomed.weight : whole;
  for (const each of boxes) {
    const end = each.start + each.weight;
    const carries = zoomed && isBelow(each, zoomed) && each.start <= from && end >= to;
    const isInside = !zoomed || (!isBelow(each, zoomed) && each.start >= from && end <= to);
    each.isShown = Boolean(carries || isInside);
    each.group.classList.toggle("hide", !each.isShown);
    each.group.classList.toggle("below", Boolean(carries));
  }
  unzoom.classList.toggle("hide", !zoomed);
  place();
  showMatched();
}

// Finds boxes by a regular expression, or by the text itself where it is none.
function find(wanted) {
  term = wanted;
  let isWanted = () => false;
  if (term) {
    let pattern;
    try {
      pattern = new RegExp(term, mindsCase ? "" : "i");
    } catch {
      pattern = new RegExp(term.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), mindsCase ? "" : "i");
    }
    isWanted = (box) => pattern.test(nameOf(box));
  }
  for (const box of boxes) {
    box.isFound = isWanted(box);
    box.rect.setAttribute("fill", box.isFound ? settings.searchColor : box.fill);
  }
  search.classList.toggle("on", Boolean(term));
  search.textContent = term ? "Reset Search" : "Search";
  showMatched();
}

// How much of what is shown was found. A box on another that was found counts once.
function showMatched() {
  matched.textContent = " ";
  if (!term) return;
  const found = boxes.filter((box) => box.isFound && box.isShown && !box.group.classList.contains("below"))
    .sort((one, other) => one.start - other.start || other.weight - one.weight);
  let weight = 0, end = -1;
  for (const box of found) {
    if (box.start < end) continue;
    weight += box.weight;
    end = box.start + box.weight;
  }
  matched.textContent = "Matched: " + (100 * weight / (to - from)).toFixed(1) + "%";
}

function askForTerm() {
  const wanted = prompt("Enter a search term (regexp allowed, eg: ^ext4_)"
    + (mindsCase ? "" : ", ignoring case"), term);
  if (wanted === null) return;
  find(wanted);
  remember();
}

function toggleCase() {
  mindsCase = !mindsCase;
  ignoreCase.classList.toggle("on", !mindsCase);
  find(term);
}

// Keeps the state in the address, so that a link shows what its sender saw.
function remember() {
  const query = new URLSearchParams(location.search);
  for (const key of ["x", "y", "s"]) query.delete(key);
  if (zoomed) {
    query.set("x", zoomed.start);
    query.set("y", zoomed.top);
  }
  if (term) query.set("s", term);
  const text = query.toString();
  try {
    history.replaceState(null, "", text ? "?" + text : location.pathname);
  } catch {
    // Some browsers do not let a local file change its address.
  }
}

function recall() {
  const query = new URLSearchParams(location.search);
  if (query.has("x") && query.has("y")) {
    const start = Number(query.get("x")), top = Number(query.get("y"));
    zoomTo(boxes.find((box) => box.start === start && box.top === top) || null);
  }
  if (query.get("s")) find(query.get("s"));
}

// Makes the picture as wide as its window.
function stretch() {
  if (!settings.isFluid) return;
  const outer = root.getBoundingClientRect().width || root.width.baseVal.value;
  const inner = Math.max(outer - 2 * settings.side, 100);
  if (inner === width) return;
  width = inner;
  frames.setAttribute("width", inner);
  for (const each of [part("title"), part("subtitle")]) if (each) each.setAttribute("x", outer / 2);
  search.setAttribute("x", outer - settings.side - 28);
  ignoreCase.setAttribute("x", outer - settings.side);
  matched.setAttribute("x", outer - settings.side);
  place();
}

const boxUnder = (event) => boxOf.get(event.target.closest("#frames g"));
frames.addEventListener("click", (event) => {
  const box = boxUnder(event);
  // A link is followed; with Ctrl its box zooms like all others.
  const isLink = event.target.closest("a");
  if (!box || (isLink && !event.ctrlKey)) return;
  event.preventDefault();
  zoomTo(box);
  remember();
});
frames.addEventListener("mouseover", (event) => {
  const box = boxUnder(event);
  if (box) details.textContent = settings.nameType + " " + box.title.textContent;
});
frames.addEventListener("mouseout", () => { details.textContent = " "; });
unzoom.addEventListener("click", () => { zoomTo(null); remember(); });
search.addEventListener("click", () => {
  if (!term) return askForTerm();
  find("");
  remember();
});
ignoreCase.addEventListener("click", toggleCase);
window.addEventListener("keydown", (event) => {
  const key = event.key.toLowerCase();
  if (event.key === "F3" || ((event.ctrlKey || event.metaKey) && key === "f")) {
    event.preventDefault();
    askForTerm();
  } else if (event.ctrlKey && key === "i") {
    event.preventDefault();
    toggleCase();
  }
});

if (settings.isFluid) {
  root.removeAttribute("viewBox");
  root.setAttribute("width", "100%");
  window.addEventListener("resize", stretch);
  stretch();
} else {
  place();
}
recall();
// What everything stands on is at the bottom of a high picture: start there.
if (!settings.isInverted && root === document.documentElement) window.scrollTo(0, document.documentElement.scrollHeight);
