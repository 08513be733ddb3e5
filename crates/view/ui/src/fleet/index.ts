// The page of `nodespy serve`: services over time, and the viewer of what is selected. What is chosen is in
// the address, so that a link shows the same.

import { byId, element } from "../page/dom";
import {
  address,
  ask,
  type Judged,
  type Parameters,
  type Regression,
  type Series,
  type Service,
} from "./api";
import { COLORS, clock, cores, draw, type Range, spark } from "./chart";

const RANGES: [string, number][] = [
  ["15m", 900],
  ["1h", 3600],
  ["6h", 21600],
  ["24h", 86400],
  ["7d", 604800],
  ["30d", 2592000],
];
const ROLES = ["main", "worker", "libuv pool", "V8 platform", "other"];
// What the server writes; `html` is what it shows.
const FORMATS = [
  "nspy",
  "html",
  "pprof",
  "folded",
  "speedscope",
  "cpuprofile",
  "firefox",
  "svg",
  "md",
  "json",
];
// The list has small lines of so many services; the rest have none.
const MAX_SPARKS = 60;

interface State {
  length: number;
  service: string;
  version: string;
  instance: string;
  role: string;
  base: string;
  selected: Range | undefined;
}

const state: State = { ...noChoice(), length: 3600, service: "" };
let services: Service[] = [];
let range: Range = [0, 1];
let series: Series | undefined;

function noChoice(): Omit<State, "length" | "service"> {
  return { version: "", instance: "", role: "", base: "", selected: undefined };
}

function readAddress(): void {
  const query = new URLSearchParams(location.search);
  const text = (key: string) => query.get(key) ?? "";
  state.length = Number(text("range")) || state.length;
  for (const key of ["service", "version", "instance", "role", "base"] as const) state[key] = text(key);
  const ends = [Number(text("from")), Number(text("until"))];
  state.selected = ends[0] > 0 && ends[1] > ends[0] ? [ends[0], ends[1]] : undefined;
}

function writeAddress(): void {
  const { selected, length, ...choices } = state;
  const parameters = { ...choices, range: length, from: selected?.[0], until: selected?.[1] };
  history.replaceState(null, "", address("/", parameters));
}

function fail(error: unknown): void {
  const message = byId("message");
  message.textContent = error instanceof Error ? error.message : String(error);
  message.hidden = false;
}

// What is asked for, as the server names it.
function selection(): Parameters {
  const [from, until] = state.selected ?? range;
  const { service, version, instance, role } = state;
  return { service, version, instance, role, from, until };
}

async function load(): Promise<void> {
  byId("message").hidden = true;
  byId("status").textContent = "…";
  const now = Math.floor(Date.now() / 1000);
  range = [now - state.length, now];
  const [from, until] = range;
  const answer = await ask<{ services: Service[] }>("/api/v1/services", { from, until });
  services = answer.services;
  byId("nothing").hidden = services.length > 0;
  byId("services").hidden = services.length === 0;
  if (!services.some((service) => service.service === state.service)) {
    Object.assign(state, noChoice(), { service: services[0]?.service ?? "" });
  }
  byId("status").textContent = `as of ${clock(now, 3600)}`;
  await Promise.all([listServices(), showService()]);
}

async function listServices(): Promise<void> {
  const [from, until] = range;
  const asked = services.slice(0, MAX_SPARKS).map((one) => {
    const step = Math.max(10, Math.ceil((until - from) / 60 / 10) * 10);
    return ask<Series>("/api/v1/series", { service: one.service, from, until, step });
  });
  const answers = await Promise.all(asked);
  const highest = Math.max(0, ...answers.flatMap(cores));
  const rows = services.map((one, at) => {
    const name = element("button", { type: "button", textContent: one.service });
    const instances = one.instances.length;
    const latest = one.versions.at(-1)?.version;
    const facts = `${latest ? `${latest} · ` : ""}${instances} instance${instances === 1 ? "" : "s"}`;
    const values = answers[at] ? cores(answers[at]) : [];
    const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    const row = element(
      "tr",
      {},
      element("td", {}, name, element("small", { textContent: facts })),
      element("td", {}, answers[at] ? spark(answers[at], highest) : ""),
      element("td", { className: "number", textContent: values.length > 0 ? mean.toFixed(2) : "" }),
    );
    row.setAttribute("aria-current", String(one.service === state.service));
    row.addEventListener("click", () => {
      Object.assign(state, noChoice(), { service: one.service });
      update();
    });
    return row;
  });
  byId("services")
    .querySelector("tbody")!
    .replaceChildren(...rows);
}

function fill(id: string, all: string, values: [string, string][], chosen: string): void {
  const options = [["", all] as [string, string], ...values].map(([value, textContent]) =>
    element("option", { value, textContent, selected: value === chosen }),
  );
  byId(id).replaceChildren(...options);
}

async function showService(): Promise<void> {
  const service = services.find((one) => one.service === state.service);
  byId("service").hidden = !service;
  writeAddress();
  if (!service) return;
  byId("name").textContent = service.service;
  document.title = `${service.service} · nodespy`;
  const versions = service.versions.map((one): [string, string] => [one.version, one.version]);
  const named = versions.filter(([name]) => name !== "");
  fill("version", "all versions", named, state.version);
  fill("base", "nothing", named, state.base);
  const ofVersion = service.instances.filter(
    (one) => state.version === "" || one.labels.version === state.version,
  );
  const instances = [...new Set(ofVersion.map((one) => one.instance))].filter((name) => name !== "");
  fill(
    "instance",
    "all instances",
    instances.map((name) => [name, name]),
    state.instance,
  );
  fill(
    "role",
    "all threads",
    ROLES.map((role) => [role, role]),
    state.role,
  );
  const [from, until] = range;
  const { version, instance, role } = state;
  const asked = { service: service.service, version, instance, role, from, until, by: "version" };
  series = await ask<Series>("/api/v1/series", asked);
  drawChart(service);
  showViewer();
  await showRegressions(service);
}

function drawChart(service: Service): void {
  if (!series) return;
  draw(byId("chart"), {
    range,
    series,
    versions: service.versions,
    marks: service.marks,
    selected: state.selected,
    onSelect: (selected) => {
      state.selected = selected;
      writeAddress();
      drawChart(service);
      showViewer();
    },
  });
  const legend = service.versions.map((one, place) => {
    const instances = `${one.instances} instance${one.instances === 1 ? "" : "s"}`;
    const since = `since ${clock(one.first, state.length)}`;
    const color = element("i", { className: `v${place % COLORS}` });
    const facts = element("span", { className: "dim", textContent: ` ${instances}, ${since}` });
    return element("li", {}, color, one.version || "no version", facts);
  });
  byId("legend").replaceChildren(...legend);
}

function showViewer(): void {
  const base = state.base
    ? { "base.version": state.base, "base.from": range[0], "base.until": range[1] }
    : {};
  const shown = address("/api/v1/profile", { ...selection(), ...base, format: "html" });
  const frame = byId<HTMLIFrameElement>("viewer");
  // Replaced, not visited: the way back leads out of the page.
  frame.contentWindow?.location.replace(shown);
  byId<HTMLAnchorElement>("open").href = shown;
  const [from, until] = state.selected ?? range;
  const length = until - from;
  const times = `${clock(from, length)} to ${clock(until, length)}`;
  byId("selected").textContent = state.selected ? `Selected: ${times}` : `${times}; drag to select a part`;
  byId("whole").hidden = !state.selected;
}

async function showRegressions(service: Service): Promise<void> {
  const panel = byId("regressions");
  panel.hidden = true;
  if (service.versions.length < 2) return;
  const [from, until] = range;
  const judged = await ask<Judged>("/api/v1/regressions", { service: service.service, from, until });
  if (service.service !== state.service) return;
  panel.hidden = false;
  panel.classList.toggle("quiet", judged.regressions.length === 0);
  byId("found").replaceChildren(...judged.regressions.map(regression));
  const said = judged.comparisons.map((one) => {
    const least = one.smallest_seen ? `changes from +${Math.round((one.smallest_seen - 1) * 100)} % on` : "";
    const words = [least && `would see ${least}`, ...one.remarks].filter(Boolean).join("; ");
    return `${one.before_version} → ${one.version}: ${words || "compared"}`;
  });
  const hasVerdict = judged.comparisons.some((one) => one.smallest_seen !== null);
  const none = hasVerdict && judged.regressions.length === 0 ? ["No function is slower."] : [];
  byId("judged").textContent = [...none, ...said].join(" ");
}

function regression(one: Regression): HTMLElement {
  const percent = (ratio: number) => `${ratio >= 1 ? "+" : ""}${Math.round((ratio - 1) * 100)} %`;
  const interval = one.interval ? ` [${one.interval.map(percent).join(", ")}]` : "";
  const place = one.file ? ` ${one.file}:${one.line}` : "";
  const [version, before] = [one.version, one.before_version].map((name) => name || "no version");
  const since = ` since ${version} (before: ${before}), ${one.verdict}`;
  return element(
    "li",
    {},
    element("b", { textContent: `${percent(one.change)}${interval} ` }),
    one.function,
    element("span", { className: "dim", textContent: place + since }),
  );
}

function update(): void {
  const rows = byId("services").querySelectorAll("tbody tr");
  services.forEach((one, at) =>
    rows[at]?.setAttribute("aria-current", String(one.service === state.service)),
  );
  showService().catch(fail);
}

function start(): void {
  readAddress();
  const pressed = () => {
    for (const one of byId("ranges").querySelectorAll("button")) {
      one.setAttribute("aria-pressed", String(Number(one.value) === state.length));
    }
  };
  for (const [name, length] of RANGES) {
    const made = element("button", { type: "button", textContent: name, value: String(length) });
    made.addEventListener("click", () => {
      state.length = length;
      state.selected = undefined;
      pressed();
      load().catch(fail);
    });
    byId("ranges").append(made);
  }
  pressed();
  for (const key of ["version", "instance", "role", "base"] as const) {
    byId<HTMLSelectElement>(key).addEventListener("change", (event) => {
      state[key] = (event.target as HTMLSelectElement).value;
      if (key === "version") state.instance = "";
      update();
    });
  }
  const formats = byId<HTMLSelectElement>("format");
  fill(
    "format",
    "…",
    FORMATS.map((name) => [name, name]),
    "",
  );
  formats.addEventListener("change", () => {
    const link = element("a", {
      href: address("/api/v1/profile", { ...selection(), format: formats.value }),
    });
    link.download = formats.value === "html" ? `${state.service}.html` : "";
    link.click();
    formats.value = "";
  });
  byId("whole").addEventListener("click", () => {
    state.selected = undefined;
    update();
  });
  byId("refresh").addEventListener("click", () => load().catch(fail));
  addEventListener("keydown", (event) => {
    if (event.key === "r" && !event.ctrlKey && !event.metaKey) load().catch(fail);
  });
  addEventListener("resize", () => {
    const service = services.find((one) => one.service === state.service);
    if (service) drawChart(service);
  });
  load().catch(fail);
}

start();
