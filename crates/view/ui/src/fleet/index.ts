// The page of `nodespy serve`: all services over time, one of them, and the viewer of what is selected.

import { byId, element } from "../page/dom";
import type { Parameters, Regression, Series, Service } from "./api";
import { address, ask, type Comparison, type Instances, type Judged } from "./api";
import { COLORS, clock, draw } from "./chart";
import { chooseBase, chooseBaseRange, fillBase, fillTimes, listenToTimes } from "./compare";
import { fillCards, fillRows, joined, type Used } from "./overview";
import { comparisonsText, instanceRows, instancesSummary, regressionItems } from "./panels";
import {
  addressOf,
  baseParameters,
  baseRangeOf,
  choiceOf,
  deployments,
  noChoice,
  RANGES,
  type Range,
  readState,
  type State,
  selection,
} from "./state";

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
// Deployments of all services are judged by themselves up to this range; of longer ones when somebody asks.
const JUDGED_LENGTH = 86400;
const HOUR = 3600;
// Steps of small pictures, of which none has more than so many. They divide a day, and of hours the server
// has sums.
const STEPS = [10, 20, 30, 60, 120, 300, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR];
const MAX_STEPS = 120;

const now = (): number => Math.floor(Date.now() / 1000);
const state: State = readState(location.search, now());
let used: Used[] = [];
let shown: Range = [0, 1];
let series: Series | undefined;
// Counts what is asked for, so that an answer that comes too late is not shown.
let turn = 0;

const chosenService = (): Service | undefined =>
  used.find((one) => one.service.service === state.service)?.service;

function writeAddress(isStep = false): void {
  const text = address("/", addressOf(state));
  if (text === location.pathname + location.search) return;
  history[isStep ? "pushState" : "replaceState"](null, "", text);
}

function fail(error: unknown): void {
  const message = byId("message");
  message.textContent = error instanceof Error ? error.message : String(error);
  message.hidden = false;
}

const step = (length: number): number => STEPS.find((one) => one * MAX_STEPS >= length) ?? 24 * HOUR;

async function load(): Promise<void> {
  byId("message").hidden = true;
  byId("status").textContent = "…";
  const mine = ++turn;
  shown = [now() - state.length, now()];
  const [from, until] = shown;
  const of = { from, until, by: "service", step: step(state.length) };
  const [{ services }, all] = await Promise.all([
    ask<{ services: Service[] }>("/api/v1/services", { from, until, instances: 0 }),
    ask<Series>("/api/v1/series", of),
  ]);
  if (mine !== turn) return;
  used = joined(services, all, shown);
  byId("status").textContent = `as of ${clock(until, HOUR)}`;
  await show();
}

// Shows what is chosen: all services, or one.
async function show(): Promise<void> {
  const service = chosenService();
  const isOverview = !state.service;
  byId("overview").hidden = !isOverview;
  byId("list").hidden = isOverview;
  byId("service").hidden = !service;
  byId("gone").hidden = isOverview || Boolean(service);
  byId("nothing").hidden = used.length > 0;
  byId("gone").textContent = `Nothing of ${state.service} was kept in this range.`;
  writeAddress();
  if (isOverview) return showOverview();
  fillRows(used, shown, state.service, chooseService);
  if (service) await showService(service);
}

function chooseService(service: string): void {
  Object.assign(state, noChoice(), { service });
  writeAddress(true);
  turn += 1;
  show().catch(fail);
}

async function showOverview(): Promise<void> {
  document.title = "nodespy";
  fillCards(used, shown, chooseService);
  const hasDeployments = used.some(({ service }) => service.versions.length > 1);
  byId("judge").hidden = !hasDeployments || state.length <= JUDGED_LENGTH;
  byId("all-regressions").hidden = true;
  if (hasDeployments && state.length <= JUDGED_LENGTH) await judgeAll();
}

async function judgeAll(): Promise<void> {
  const mine = turn;
  const panel = byId("all-regressions");
  panel.hidden = false;
  byId("all-judged").textContent = "Judging the deployments of this range…";
  byId("all-found").replaceChildren();
  const judged = await ask<Judged>("/api/v1/regressions", deployments(state, shown));
  if (mine !== turn || state.service) return;
  byId("judge").hidden = true;
  panel.classList.toggle("quiet", judged.regressions.length === 0);
  byId("all-found").replaceChildren(...regressionItems(judged, true, chooseRegression));
  const count = judged.comparisons.length;
  const compared = `${count} deployment${count === 1 ? "" : "s"} judged`;
  const without = judged.comparisons.filter((one) => one.smallest_seen === null).length;
  const open = without > 0 ? `, ${without} without a verdict: too few instances, or too short` : "";
  const none = judged.regressions.length === 0 ? "No function is found to be slower. " : "";
  byId("all-judged").textContent = `${none}${compared}${open}.`;
}

function chooseRegression(one: Regression, comparison: Comparison | undefined): void {
  const found = used.find(({ service }) => service.service === one.service);
  Object.assign(state, choiceOf(one, comparison, found?.service.versions ?? [], shown));
  const earliest = Math.min(state.selected?.[0] ?? shown[0], state.baseRange?.[0] ?? shown[0]);
  if (earliest < shown[0]) state.length = readState(`?from=${earliest}&until=${shown[1]}`, now()).length;
  writeAddress(true);
  pressRange();
  load().catch(fail);
}

function fill(id: string, all: string, values: string[], chosen: string): void {
  const known = chosen && !values.includes(chosen) ? [chosen, ...values] : values;
  const options = ["", ...known].map((value) =>
    element("option", { value, textContent: value || all, selected: value === chosen }),
  );
  byId(id).replaceChildren(...options);
}

async function showService(service: Service): Promise<void> {
  const mine = turn;
  byId("name").textContent = service.service;
  document.title = `${service.service} · nodespy`;
  const names = service.versions.map((one) => one.version).filter((name) => name !== "");
  fill("version", "all versions", names, state.version);
  fill("instance", "all instances", [], state.instance);
  fill("role", "all threads", ROLES, state.role);
  announceRegressions(service);
  const drawn = showSelection(service);
  const [from, until] = shown;
  const { version, instance, role } = state;
  const asked = { service: service.service, version, instance, role, from, until, by: "version" };
  const answer = await ask<Series>("/api/v1/series", asked);
  if (mine !== turn) return;
  series = answer;
  drawChart(service);
  // What takes longer comes after the picture.
  await drawn;
  if (mine === turn) await showRegressions();
}

// What follows from the selection and what it is compared with.
async function showSelection(service: Service): Promise<void> {
  const mine = turn;
  writeAddress();
  fillBase(state, service);
  fillTimes(state, shown);
  drawChart(service);
  await showViewer(service);
  if (mine === turn) await showInstances(service);
}

function drawChart(service: Service): void {
  if (!series) return;
  draw(byId("chart"), {
    range: shown,
    service,
    series,
    selected: state.selected,
    base: state.against === "siblings" ? undefined : baseRangeOf(state, shown),
    onSelect: (chosen, isBase) => {
      if (isBase) chooseBaseRange(state, chosen, shown);
      else state.selected = chosen;
      reselect();
    },
  });
  const legend = service.versions.map((one, place) => {
    const instances = `${one.instances} instance${one.instances === 1 ? "" : "s"}`;
    const since = one.first > shown[0] ? `, since ${clock(one.first, state.length)}` : "";
    const color = element("i", { className: `v${place % COLORS}` });
    const facts = element("span", { className: "dim", textContent: ` ${instances}${since}` });
    return element("li", {}, color, one.version || "no version", facts);
  });
  byId("legend").replaceChildren(...legend);
}

function reselect(): void {
  const service = chosenService();
  turn += 1;
  if (service) showSelection(service).catch(fail);
}

let framed = "";

// Ends when the viewer is there, or says why it is not.
async function showViewer(service: Service): Promise<void> {
  const base = baseParameters(state, shown, service.versions);
  const asked = address("/api/v1/profile", { ...selection(state, shown), ...base, format: "html" });
  const hash = new URLSearchParams();
  if (Object.keys(base).length > 0) hash.set("cmp", "base");
  if (state.query) hash.set("q", state.query);
  const frame = byId<HTMLIFrameElement>("viewer");
  byId<HTMLAnchorElement>("open").href = `${asked}#${hash}`;
  const isSame = framed === asked;
  framed = asked;
  // Replaced, not visited: the way back leads out of the viewer.
  const loaded = new Promise<void>((resolve) =>
    frame.addEventListener("load", () => resolve(), { once: true }),
  );
  byId("viewer").classList.add("busy");
  frame.contentWindow?.location.replace(`${asked}#${hash}`);
  if (!isSame) await loaded;
  if (framed !== asked) return;
  byId("viewer").classList.remove("busy");
  const shownThere = frame.contentDocument;
  const isPicture = shownThere?.contentType === "text/html";
  frame.hidden = !isPicture;
  byId("empty").hidden = isPicture;
  const why = shownThere?.body?.textContent?.trim() || "The server did not answer.";
  if (!isPicture) byId("empty").textContent = why;
}

// A panel that has nothing to say is closed, and leaves the room to the picture, until somebody opens it.
function setNews(panel: HTMLElement, hasNews: boolean): void {
  panel.classList.toggle("quiet", !hasNews);
  const known = `${state.service} ${hasNews}`;
  if (panel.dataset.known !== known) (panel as HTMLDetailsElement).open = hasNews;
  panel.dataset.known = known;
}

// The place that regressions take, so that nothing moves when they come.
function announceRegressions(service: Service): void {
  const panel = byId("regressions");
  const isNew = panel.dataset.service !== service.service;
  panel.hidden = service.versions.length < 2;
  panel.dataset.service = service.service;
  if (!isNew) return;
  panel.classList.add("quiet");
  byId("slower").textContent = "Slower since a deployment: …";
  byId("found").replaceChildren();
  byId("judged").textContent = "";
}

async function showRegressions(): Promise<void> {
  const panel = byId("regressions");
  if (panel.hidden) return;
  const mine = turn;
  const judged = await ask<Judged>("/api/v1/regressions", deployments(state, shown));
  if (mine !== turn) return;
  const count = judged.regressions.length;
  setNews(panel, count > 0);
  byId("slower").textContent = `Slower since a deployment: ${count || "nothing"}`;
  byId("found").replaceChildren(...regressionItems(judged, false, chooseRegression));
  byId("judged").textContent = comparisonsText(judged);
}

async function showInstances(service: Service): Promise<void> {
  const mine = turn;
  const asked: Parameters = { ...selection(state, shown), instance: "" };
  const found = await ask<Instances>("/api/v1/instances", asked);
  if (mine !== turn) return;
  const names = [...new Set(found.instances.map((one) => one.instance))].sort();
  fill("instance", "all instances", names, state.instance);
  const panel = byId("instances");
  panel.hidden = found.instances.length < 2;
  setNews(
    panel,
    found.instances.some((one) => one.odd.length > 0),
  );
  byId("siblings").textContent = instancesSummary(found);
  const choose = (choice: Partial<State>) => {
    Object.assign(state, choice);
    turn += 1;
    showService(service).catch(fail);
  };
  const rows = instanceRows(found, {
    chosen: state.instance,
    onChoose: (one) => choose({ instance: one.instance, version: one.version, query: "" }),
    onCompare: (one, odd) =>
      choose({
        instance: one.instance,
        version: one.version,
        against: "siblings",
        base: "",
        query: odd.function ?? "",
      }),
  });
  panel.querySelector("tbody")!.replaceChildren(...rows);
}

function pressRange(): void {
  for (const one of byId("ranges").querySelectorAll("button")) {
    one.setAttribute("aria-pressed", String(Number(one.value) === state.length));
  }
}

function listenToChoices(): void {
  const update = () => {
    const service = chosenService();
    turn += 1;
    if (service) showService(service).catch(fail);
  };
  for (const key of ["version", "instance", "role"] as const) {
    byId<HTMLSelectElement>(key).addEventListener("change", (event) => {
      state[key] = (event.target as HTMLSelectElement).value;
      if (key === "version") state.instance = "";
      if (!state.instance && state.against === "siblings") state.against = "";
      update();
    });
  }
  byId<HTMLSelectElement>("base").addEventListener("change", (event) => {
    chooseBase(state, (event.target as HTMLSelectElement).value, shown);
    reselect();
  });
  listenToTimes(state, () => shown, reselect);
  byId("whole").addEventListener("click", () => {
    state.selected = undefined;
    reselect();
  });
}

function listenToSaving(): void {
  const formats = byId<HTMLSelectElement>("format");
  fill("format", "…", FORMATS, "");
  formats.addEventListener("change", () => {
    const asked = { ...selection(state, shown), format: formats.value };
    const link = element("a", { href: address("/api/v1/profile", asked) });
    link.download = formats.value === "html" ? `${state.service}.html` : "";
    link.click();
    formats.value = "";
  });
}

function listenToPage(): void {
  const home = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    chooseService("");
  };
  byId("home").addEventListener("click", home);
  byId("all").addEventListener("click", home);
  byId("filter").addEventListener("input", () => fillCards(used, shown, chooseService));
  byId("judge").addEventListener("click", () => judgeAll().catch(fail));
  byId("refresh").addEventListener("click", () => load().catch(fail));
  addEventListener("keydown", (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "r" && !event.ctrlKey && !event.metaKey && !isTyping) load().catch(fail);
  });
  addEventListener("resize", () => {
    const service = chosenService();
    if (service) drawChart(service);
  });
  addEventListener("popstate", () => {
    Object.assign(state, readState(location.search, now()));
    pressRange();
    load().catch(fail);
  });
}

function start(): void {
  for (const [name, length] of RANGES) {
    const made = element("button", { type: "button", textContent: name, value: String(length) });
    made.addEventListener("click", () => {
      state.length = length;
      state.selected = undefined;
      state.baseRange = undefined;
      if (state.against === "range") state.against = "";
      pressRange();
      load().catch(fail);
    });
    byId("ranges").append(made);
  }
  pressRange();
  listenToChoices();
  listenToSaving();
  listenToPage();
  load().catch(fail);
}

start();
