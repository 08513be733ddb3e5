// All services at once: a small picture of each, with its deployments.

import { byId, element } from "../page/dom";
import { address, type Series, type Service } from "./api";
import { clock, cores, spark } from "./chart";
import type { Range } from "./state";

const CARD: [number, number] = [280, 56];
const ROW: [number, number] = [110, 26];

// A service with what it used.
export interface Used {
  service: Service;
  series: Series;
  mean: number;
  highest: number;
}

// The services with their lines, what uses most first.
export function joined(services: Service[], all: Series, shown: Range): Used[] {
  const used = services.map((service) => {
    const series = { ...all, series: all.series.filter((one) => one.labels.service === service.service) };
    const weights = series.series.flatMap((one) => one.weights);
    const mean = weights.reduce((sum, weight) => sum + weight, 0) / (shown[1] - shown[0]) / 1e9;
    return { service, series, mean, highest: Math.max(0, ...cores(series, shown)) };
  });
  const byName = new Intl.Collator("en", { numeric: true }).compare;
  return used.sort(
    (one, other) => other.mean - one.mean || byName(one.service.service, other.service.service),
  );
}

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? "" : "s"}`;

function instancesOf(service: Service): number {
  return service.versions.reduce((sum, one) => sum + one.instances, 0);
}

export function coresText(value: number): string {
  if (value > 0 && value < 0.0005) return "<0.001";
  return value.toFixed(value < 0.1 ? 3 : 2);
}

export function fillCards(all: Used[], shown: Range, onChoose: (service: string) => void): void {
  const text = byId<HTMLInputElement>("filter").value.toLowerCase();
  const found = all.filter(({ service }) => service.service.toLowerCase().includes(text));
  byId("counted").textContent =
    found.length < all.length ? `${found.length} of ${all.length}` : count(all.length, "service");
  byId("cards").replaceChildren(...found.map((one) => card(one, shown, onChoose)));
}

function card(
  { service, series, mean, highest }: Used,
  shown: Range,
  onChoose: (it: string) => void,
): HTMLElement {
  const [from, until] = shown;
  const href = address("/", { service: service.service, range: until - from });
  const latest = service.versions.at(-1);
  const since = latest && latest.first > from ? ` since ${clock(latest.first, until - from)}` : "";
  const version = latest?.version ? `${latest.version}${since} · ` : "";
  const made = element(
    "a",
    { className: "card", href },
    element(
      "span",
      { className: "line" },
      element("b", { textContent: service.service, title: service.service }),
      element("span", { className: "number", textContent: coresText(mean) }),
    ),
    spark(service, series, shown, CARD),
    element("small", { textContent: `${version}${count(instancesOf(service), "instance")}` }),
  );
  made.title = `${service.service}: ${coresText(mean)} cores, at most ${coresText(highest)}`;
  made.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    onChoose(service.service);
  });
  return made;
}

// The list beside a service that is chosen.
export function fillRows(all: Used[], shown: Range, chosen: string, onChoose: (it: string) => void): void {
  const rows = all.map(({ service, series, mean }) => {
    const name = element("button", { type: "button", textContent: service.service });
    const latest = service.versions.at(-1)?.version;
    const facts = `${latest ? `${latest} · ` : ""}${count(instancesOf(service), "instance")}`;
    const row = element(
      "tr",
      {},
      element("td", {}, name, element("small", { textContent: facts })),
      element("td", {}, spark(service, series, shown, ROW)),
      element("td", { className: "number", textContent: coresText(mean) }),
    );
    row.setAttribute("aria-current", String(service.service === chosen));
    row.addEventListener("click", () => onChoose(service.service));
    return row;
  });
  byId("services")
    .querySelector("tbody")!
    .replaceChildren(...rows);
}
