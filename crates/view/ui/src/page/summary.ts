// The strip at the top: what was recorded, how sure it is, what it did, what stands out.

import type { Shares } from "../model/tree";
import type { App, Panel } from "./app";
import { byId, element, swatch } from "./dom";
import { categoryFill } from "./look";
import { percent } from "./words";

const SHARES: [keyof Shares, string, number][] = [
  ["javascript", "JS", 0],
  ["native", "native", 7],
  ["kernel", "kernel", 8],
  ["gc", "GC", 6],
  ["idle", "idle", 9],
  ["unknown", "unknown", 10],
];

export class Summary implements Panel {
  readonly root = byId("summary");
  private shown: Shares | null = null;
  private palette = "";

  constructor(private readonly app: App) {
    const { preview } = app;
    byId("title").textContent = preview.title;
    byId("how").textContent = [preview.who, preview.how].filter(Boolean).join(", ");
    byId("confidence").textContent = preview.confidence.join("; ");
    this.list("findings", preview.findings);
    this.list("remark-list", preview.remarks);
    byId("remarks").hidden = preview.remarks.length === 0;
    byId("remark-count").textContent =
      preview.remarks.length === 1 ? "1 note" : `${preview.remarks.length} notes`;
    byId("fact-list").replaceChildren(
      ...preview.facts.flatMap(([name, value]) => [
        element("dt", { textContent: name }),
        element("dd", { textContent: value, dir: "auto" }),
      ]),
    );
  }

  private list(id: string, sentences: string[]): void {
    byId(id).replaceChildren(
      ...sentences.map((sentence) => element("li", { dir: "auto" }, ...withCode(sentence))),
    );
    byId(id).hidden = sentences.length === 0;
  }

  update(): void {
    const { shares, state } = this.app;
    const isPart =
      state.range !== null || state.threads !== null || state.transforms.length > 0 || state.compare !== null;
    byId("findings").classList.toggle("of-whole", isPart);
    if (!shares || (shares === this.shown && this.palette === state.palette)) return;
    this.shown = shares;
    this.palette = state.palette;
    const whole = Object.values(shares).reduce((sum, value) => sum + value, 0);
    const present = SHARES.filter(([key]) => shares[key] > 0);
    byId("shares").replaceChildren(
      ...present.map(([key, label, category]) => {
        const part = element("span", { title: `${label} ${percent(shares[key], whole)}` });
        part.style.flexGrow = String(shares[key] / whole);
        part.style.background = categoryFill(state.palette, category);
        return part;
      }),
    );
    byId("shares").ariaLabel = present
      .map(([key, label]) => `${label} ${percent(shares[key], whole)}`)
      .join(", ");
    byId("share-legend").replaceChildren(
      ...present.map(([key, label, category]) =>
        element(
          "li",
          {},
          swatch(categoryFill(state.palette, category)),
          `${label} ${percent(shares[key], whole)}`,
        ),
      ),
    );
  }
}

// Names between backticks stand out.
function withCode(sentence: string): (Node | string)[] {
  return sentence.split("`").map((part, at) => (at % 2 ? element("code", { textContent: part }) : part));
}
