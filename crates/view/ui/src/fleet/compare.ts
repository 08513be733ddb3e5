// The controls of what is selected and what it is compared with: a list, and the ends of both ranges as
// fields.

import { byId, element } from "../page/dom";
import type { Service } from "./api";
import { type Against, baseRangeOf, type Range, type State, startOfRanges } from "./state";

const TIMES: [Against, string][] = [
  ["before", "the time before"],
  ["day", "the same time yesterday"],
  ["week", "the same time a week ago"],
  ["range", "a range (Shift+drag)"],
];

function option(value: string, textContent: string, chosen: string): HTMLOptionElement {
  return element("option", { value, textContent, selected: value === chosen });
}

// Options are `version:NAME` or one of the other things to compare with.
export function fillBase(state: State, service: Service): void {
  const chosen = state.against === "version" ? `version:${state.base}` : state.against;
  const names = service.versions.map((one) => one.version).filter((name) => name !== "");
  const current = state.version || names.at(-1) || "";
  const previous = names[names.indexOf(current) - 1];
  const versions = names.map((name) => {
    const text = name === previous ? `${name} (the previous version)` : name;
    return option(`version:${name}`, text, chosen);
  });
  const times = TIMES.map(([value, text]) => option(value, text, chosen));
  const group = (label: string, options: HTMLOptionElement[]) =>
    options.length > 0 ? [element("optgroup", { label }, ...options)] : [];
  const siblings = state.instance ? [option("siblings", "its siblings", chosen)] : [];
  byId("base").replaceChildren(
    option("", "nothing", chosen),
    ...siblings,
    ...group("Another version", versions.reverse()),
    ...group("Another time", times),
  );
}

export function chooseBase(state: State, value: string, shown: Range): void {
  state.query = "";
  state.baseRange = undefined;
  state.base = value.startsWith("version:") ? value.slice("version:".length) : "";
  state.against = state.base ? "version" : (value as Against);
  if (state.against === "range") Object.assign(state, startOfRanges(state, shown));
}

// Seconds since 1970 as a field for local times takes them.
function local(seconds: number): string {
  const date = new Date(seconds * 1000);
  const at = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 19);
}

const FIELDS = ["from", "until", "base-from", "base-until"] as const;
const field = (id: string): HTMLInputElement => byId<HTMLInputElement>(id);

export function fillTimes(state: State, shown: Range): void {
  const base = baseRangeOf(state, shown);
  const ends = [...(state.selected ?? shown), ...(base ?? [])];
  for (const [at, id] of FIELDS.entries()) {
    const time = ends[at];
    if (time !== undefined && document.activeElement !== field(id)) field(id).value = local(time);
  }
  byId("base-times").hidden = !base || state.against === "siblings";
  byId("whole").hidden = !state.selected;
}

// Takes the ends of a range as they are typed; one that ends before it begins is not taken.
export function listenToTimes(state: State, shown: () => Range, changed: () => void): void {
  const read = (from: string, until: string): Range | undefined => {
    const ends = [from, until].map((id) => Math.round(new Date(field(id).value).getTime() / 1000));
    const isRange = ends.every(Number.isFinite) && ends[1] > ends[0];
    for (const id of [from, until]) field(id).setAttribute("aria-invalid", String(!isRange));
    return isRange ? [ends[0], ends[1]] : undefined;
  };
  for (const id of FIELDS) {
    field(id).addEventListener("change", () => {
      const isBase = id.startsWith("base-");
      const chosen = isBase ? read("base-from", "base-until") : read("from", "until");
      if (!chosen) return;
      if (isBase) chooseBaseRange(state, chosen, shown());
      else state.selected = chosen;
      changed();
    });
  }
}

// A range to compare with; without one that is selected, it is compared with the rest of what is shown.
export function chooseBaseRange(state: State, chosen: Range | undefined, shown: Range): void {
  state.baseRange = chosen;
  if (!chosen) {
    if (state.against === "range") state.against = "";
    return;
  }
  if (state.against !== "version") state.against = "range";
  const [from, until] = shown;
  if (!state.selected && state.against === "range") {
    const isEarly = chosen[0] - from < until - chosen[1];
    const rest: Range = isEarly ? [chosen[1], until] : [from, chosen[0]];
    state.selected = rest[1] > rest[0] ? rest : undefined;
  }
}
