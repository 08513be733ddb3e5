// Words, numbers and colours, the same everywhere on the page.

// In the order of the file's codes. Hue tells the category; see TIER_LIGHTNESS for the tier.
const CATEGORIES = [
  { key: "app", label: "app", share: "javascript", fill: "#c4f598" },
  { key: "dependency", label: "dependency", share: "javascript", fill: "#b79efe" },
  { key: "core", label: "node core", share: "javascript", fill: "#65c4d3" },
  { key: "builtin", label: "V8 builtin", share: "javascript", fill: "#4fb39c" },
  { key: "wasm", label: "wasm", share: "javascript", fill: "#7184b0" },
  { key: "regexp", label: "regexp", share: "javascript", fill: "#c4778e" },
  { key: "gc", label: "GC", share: "gc", fill: "#fb8379" },
  { key: "native", label: "native", share: "native", fill: "#a08405" },
  { key: "kernel", label: "kernel", share: "kernel", fill: "#f0a95d" },
  { key: "idle", label: "idle", share: "idle", fill: "#e6e8eb" },
  { key: "unknown", label: "unknown", share: "unknown", fill: "#c3c8ce" },
  { key: "internal", label: "internal", share: "javascript", fill: "#9aa5a0" },
];
const UNKNOWN = CATEGORIES.find((category) => category.key === "unknown");
const TIER_LABELS = ["", "interpreted", "baseline", "maglev", "optimized"];
// How much white is mixed in: the better the compiler, the fuller the colour.
const TIER_LIGHTNESS = [0, 0.66, 0.44, 0.22, 0];
const ROLES = ["main", "worker", "libuv pool", "V8 platform", "other"];
const SHARES = [
  ["javascript", "JS", "#c4f598"], ["native", "native", "#a08405"], ["kernel", "kernel", "#f0a95d"],
  ["gc", "GC", "#fb8379"], ["idle", "idle", "#e6e8eb"], ["unknown", "unknown", "#c3c8ce"],
];

function categoryOf(profile, fn) {
  return (fn >= 0 && CATEGORIES[profile.functions.category[fn]]) || UNKNOWN;
}

function nameOf(profile, fn) {
  if (fn === ALL) return "all";
  if (fn === NO_STACK) return "[no stack]";
  return profile.strings[profile.functions.name[fn]] || "(anonymous)";
}

// `file:line:column`, or the module of native code.
function placeOf(profile, fn) {
  if (fn < 0 || profile.functions.file[fn] < 0) return "";
  const file = profile.strings[profile.functions.file[fn]];
  const line = profile.functions.line[fn];
  const column = profile.functions.column[fn];
  return line ? `${file}:${line}${column ? `:${column}` : ""}` : file;
}

// The last part of a place: what fits into a box or a narrow column.
function shortPlace(profile, fn) {
  return placeOf(profile, fn).replace(/^.*\//, "").replace(/^(.*:\d+):\d+$/, "$1");
}

// A C++ name without the arguments of functions and templates.
function shortName(name) {
  if (!name.includes("::")) return name;
  let short = "";
  let depth = 0;
  for (const character of name.replaceAll("(anonymous namespace)", "{anonymous}")) {
    if (character === "<" || character === "(") depth++;
    else if ((character === ">" || character === ")") && depth > 0) depth--;
    else if (depth === 0) short += character;
  }
  return depth === 0 ? short.replace(/ const$/, "") : name;
}

const shades = new Map(); // by category and tier, because every box asks

function shadeOf(category, tier) {
  const key = `${category.key}${tier}`;
  if (!shades.has(key)) {
    const white = TIER_LIGHTNESS[tier] || 0;
    const mix = (at) => {
      const value = parseInt(category.fill.slice(at, at + 2), 16);
      return Math.round(value + (255 - value) * white);
    };
    shades.set(key, `rgb(${mix(1)} ${mix(3)} ${mix(5)})`);
  }
  return shades.get(key);
}

const COUNT = new Intl.NumberFormat("en");

function count(value) {
  return COUNT.format(Math.round(value));
}

function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

function duration(nanoseconds) {
  const seconds = nanoseconds / 1e9;
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

function weightText(value, unit) {
  if (unit === "nanoseconds") return duration(value);
  if (unit === "bytes") return value < 1e4 ? counted(value, "byte") : `${count(value / 1e3)} kB`;
  return counted(value, "sample");
}

// A part that is there never shows as 0, nor one that is not whole as 100.
function percent(part, whole) {
  const value = whole > 0 ? (part / whole) * 100 : 0;
  if (value > 0 && value < 0.1) return "<0.1 %";
  if (value < 100 && value > 99.9) return ">99.9 %";
  return value === 0 || value === 100 ? `${value} %` : `${value.toFixed(1)} %`;
}
