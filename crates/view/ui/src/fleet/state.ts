// What is chosen, as it stands in the address of the page: a link shows the same.

import type { Comparison, Parameters, Regression, Version } from "./api";

export type Range = [number, number];

export const RANGES: [string, number][] = [
  ["15m", 900],
  ["1h", 3600],
  ["6h", 21600],
  ["24h", 86400],
  ["7d", 604800],
  ["30d", 2592000],
];
const LONGEST = RANGES[RANGES.length - 1][1];
const DAY = 86400;

// What a selection is compared with: nothing, a version, all instances of its version, an earlier time, or a
// range that somebody chose.
export type Against = "" | "version" | "siblings" | "before" | "day" | "week" | "range";
const NAMED: Against[] = ["siblings", "before", "day", "week"];

export interface State {
  // How much of the time before now is shown.
  length: number;
  service: string;
  version: string;
  instance: string;
  role: string;
  selected: Range | undefined;
  against: Against;
  base: string;
  baseRange: Range | undefined;
  // What the viewer searches for.
  query: string;
  // How many seconds instances are left out for, and have to be seen for, before deployments are judged by
  // them; as usual where empty.
  warmUp: string;
  minLength: string;
}

// What another service starts with.
export function noChoice(): Omit<State, "length" | "service" | "warmUp" | "minLength"> {
  const nothing = { version: "", instance: "", role: "", base: "", query: "" };
  return { ...nothing, against: "", selected: undefined, baseRange: undefined };
}

function range(from: string | null, until: string | null): Range | undefined {
  const ends: Range = [Math.round(Number(from)), Math.round(Number(until))];
  return ends[0] > 0 && ends[1] > ends[0] ? ends : undefined;
}

export function readState(search: string, now: number): State {
  const query = new URLSearchParams(search);
  const text = (key: string) => query.get(key) ?? "";
  const selected = range(query.get("from"), query.get("until"));
  const baseRange = range(query.get("base.from"), query.get("base.until"));
  const named = NAMED.find((known) => known === text("against"));
  // A link that does not say how much is shown shows what it has chosen.
  const earliest = Math.min(selected?.[0] ?? now, baseRange?.[0] ?? now);
  const reaching = RANGES.find(([, length]) => now - length <= earliest)?.[1] ?? LONGEST;
  const length = Number(text("range"));
  return {
    length: length >= 60 ? length : selected ? reaching : 3600,
    service: text("service"),
    version: text("version"),
    instance: text("instance"),
    role: text("role"),
    selected,
    against: text("base") ? "version" : (named ?? (baseRange ? "range" : "")),
    base: text("base"),
    baseRange,
    query: text("q"),
    warmUp: text("warm_up"),
    minLength: text("min_length"),
  };
}

// The parameters of the page's own address.
export function addressOf(state: State): Parameters {
  const { selected, length, against, base, baseRange, query, service, version, instance, role } = state;
  const hasRange = against === "version" || against === "range";
  return {
    service,
    version,
    instance,
    role,
    range: length,
    from: selected?.[0],
    until: selected?.[1],
    against: NAMED.includes(against) ? against : "",
    base: against === "version" ? base : "",
    "base.from": hasRange ? baseRange?.[0] : undefined,
    "base.until": hasRange ? baseRange?.[1] : undefined,
    q: query,
    ...judging(state),
  };
}

const judging = ({ warmUp, minLength }: State): Parameters => ({ warm_up: warmUp, min_length: minLength });

// The deployments that are judged: of a service, or of all.
export function deployments(state: State, [from, until]: Range): Parameters {
  return { service: state.service, from, until, ...judging(state) };
}

// What is asked for, as the server names it; `shown` is the time that is on the page.
export function selection(state: State, shown: Range): Parameters {
  const [from, until] = state.selected ?? shown;
  const { service, version, instance, role } = state;
  return { service, version, instance, role, from, until };
}

// The range that a selection is compared with; undefined where it is compared with nothing.
export function baseRangeOf(state: State, shown: Range): Range | undefined {
  const [from, until] = state.selected ?? shown;
  const earlier = (seconds: number): Range => [from - seconds, until - seconds];
  switch (state.against) {
    case "":
      return undefined;
    case "siblings":
      return [from, until];
    case "version":
      return state.baseRange ?? shown;
    case "before":
      return earlier(until - from);
    case "day":
      return earlier(DAY);
    case "week":
      return earlier(7 * DAY);
    case "range":
      return state.baseRange;
  }
}

// The same as the server names it. Of a time before a version was there, all versions are meant.
export function baseParameters(state: State, shown: Range, versions: Version[]): Parameters {
  const ends = baseRangeOf(state, shown);
  if (!ends) return {};
  const known = versions.find((one) => one.version === state.version);
  const wasThere = !known || known.first < ends[1];
  const version = state.against === "version" ? state.base : wasThere ? undefined : "*";
  const isOfAll = state.against === "version" || state.against === "siblings";
  return {
    "base.version": version,
    "base.instance": isOfAll && state.instance ? "*" : undefined,
    "base.from": ends[0],
    "base.until": ends[1],
  };
}

// Two halves of what is shown, where somebody wants to compare ranges and has chosen none.
export function startOfRanges(state: State, shown: Range): { selected: Range; baseRange: Range } {
  const [from, until] = shown;
  const middle = Math.round((from + until) / 2);
  const selected: Range = state.selected ?? [middle, until];
  const length = selected[1] - selected[0];
  const start = selected[0] - length >= from ? selected[0] - length : selected[0];
  return { selected, baseRange: state.baseRange ?? [start, start + length] };
}

// What shows a regression: both versions in the time that was compared, the function searched for.
export function choiceOf(
  one: Regression,
  comparison: Comparison | undefined,
  versions: Version[],
  shown: Range,
): Partial<State> {
  const before = versions.find((it) => it.version === one.before_version);
  const [from, until] = shown;
  const compared = comparison?.compared;
  const together: Range = [Math.max(from, one.since), Math.min(until, before?.last ?? until)];
  const isTogether = comparison?.concurrent && together[1] > together[0];
  const after: Range = isTogether ? together : [Math.max(from, one.since), until];
  const earlier: Range = isTogether ? together : [from, Math.max(from + 1, one.since)];
  return {
    ...noChoice(),
    service: one.service,
    version: one.version,
    against: "version",
    base: one.before_version,
    selected: compared?.after ?? after,
    baseRange: compared?.before ?? earlier,
    query: one.function,
  };
}
