// What the page lists beside the chart: functions that are slower since a deployment, and instances with the
// odd one out.

import { element } from "../page/dom";
import type { Comparison, Instance, Instances, Judged, Odd, Regression } from "./api";
import { clock } from "./chart";
import { coresText } from "./overview";

const MAX_CALLERS = 3;
const DAY = 86400;

const percent = (ratio: number): string => `${ratio >= 1 ? "+" : ""}${Math.round((ratio - 1) * 100)} %`;
const named = (version: string): string => version || "no version";

export type OnRegression = (one: Regression, comparison: Comparison | undefined) => void;

// `isOfAll`: of all services, so that each says its own.
export function regressionItems(judged: Judged, isOfAll: boolean, onChoose: OnRegression): HTMLElement[] {
  return judged.regressions.map((one) => {
    const comparison = judged.comparisons.find(
      (it) =>
        it.service === one.service && it.version === one.version && it.before_version === one.before_version,
    );
    const interval = one.interval ? ` [${one.interval.map(percent).join(", ")}]` : "";
    const link = element("button", {
      type: "button",
      className: "link",
      title: `Compare ${named(one.version)} with ${named(one.before_version)}, and find ${one.function}`,
      textContent: one.function,
    });
    link.addEventListener("click", () => onChoose(one, comparison));
    const service = isOfAll ? `${one.service}: ` : "";
    const change = element("b", { textContent: percent(one.change) });
    const facts = element("span", { className: "dim", textContent: interval });
    const place = element("span", { className: "dim", textContent: factsOf(one) });
    return element("li", {}, service, change, facts, " ", link, place);
  });
}

function factsOf(one: Regression): string {
  const place = one.file ? ` ${one.file}:${one.line}` : "";
  const callers = one.callers?.slice(0, MAX_CALLERS).map((caller) => caller.function) ?? [];
  const through = callers.length > 0 ? `, through ${callers.join(", ")}` : "";
  const times = [one.first_seen, one.last_seen].map((time) => time && clock(time, 2 * DAY));
  const seen = times.every(Boolean) ? `, seen ${times.join(" to ")}` : "";
  const versions = `${named(one.before_version)} → ${named(one.version)}`;
  return `${place} · ${versions}, ${one.verdict}${through}${seen}`;
}

// What was compared, where nothing or not everything is to be said.
export function comparisonsText(judged: Judged): string {
  const said = judged.comparisons.map((one) => {
    const least = one.smallest_seen ? `changes from ${percent(one.smallest_seen)} on` : "";
    const words = [least && `would see ${least}`, ...one.remarks].filter(Boolean).join("; ");
    return `${named(one.before_version)} → ${named(one.version)}: ${words || "compared"}.`;
  });
  const hasVerdict = judged.comparisons.some((one) => one.smallest_seen !== null);
  const none = hasVerdict && judged.regressions.length === 0 ? ["No function is slower."] : [];
  return [...none, ...said].join(" ");
}

export interface InstanceChoices {
  chosen: string;
  onChoose(instance: Instance): void;
  // Shows what it does differently from its siblings.
  onCompare(instance: Instance, odd: Odd): void;
}

export function instanceRows({ instances }: Instances, choices: InstanceChoices): HTMLElement[] {
  const highest = Math.max(1e-9, ...instances.map((one) => one.cores));
  return instances.map((one) => {
    const name = element("button", { type: "button", className: "link", textContent: one.instance });
    name.addEventListener("click", () => choices.onChoose(one));
    const bar = element("meter", { max: highest, value: one.cores });
    bar.setAttribute("aria-hidden", "true");
    const said = one.odd.map((odd) => sentence(one, odd, choices));
    const words = said.length > 0 ? said : [one.judged ? "" : "not judged"];
    const row = element(
      "tr",
      { className: one.odd.length > 0 ? "odd" : "" },
      element("td", { className: "name" }, name),
      element("td", { className: "dim", textContent: one.version }),
      element("td", {}, bar),
      element("td", { className: "number", textContent: coresText(one.cores) }),
      element("td", { className: said.length > 0 ? "" : "dim" }, ...words),
    );
    row.setAttribute("aria-current", String(one.instance === choices.chosen));
    return row;
  });
}

function sentence(instance: Instance, odd: Odd, choices: InstanceChoices): HTMLElement {
  const made = element("button", { type: "button", className: "link", textContent: odd.sentence });
  made.title = "Compare it with its siblings";
  made.addEventListener("click", () => choices.onCompare(instance, odd));
  return element("div", {}, made);
}

export function instancesSummary({ instances, left_off, missing_hours }: Instances): string {
  const odd = instances.filter((one) => one.odd.length > 0).length;
  const judged = instances.filter((one) => one.judged).length;
  const count = `${instances.length}${left_off > 0 ? ` of ${instances.length + left_off}` : ""}`;
  const differs = `${odd || "none"} ${odd > 1 ? "differ" : "differs"} from the others`;
  const verdict = judged > 0 ? differs : "too few of one version to compare";
  const missing = missing_hours > 0 ? `; without ${missing_hours} h of which only versions are kept` : "";
  return `Instances: ${count}, ${verdict}${missing}`;
}
