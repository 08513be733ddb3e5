// The strip at the top: what was recorded, how sure it is, what it did, what stands out.

import { FIRST_EVENT } from "../model/profile";
import { Category, SHARE_PARTS } from "../model/tables";
import type { Shares } from "../model/tree";
import type { App, Findings, Panel, SubsystemRow } from "./app";
import { button, byId, element, swatch } from "./dom";
import { percent } from "./words";

// What the hidden categories leave behind has no name of its own; see `sharesOf`.
const PARTS: readonly SharePart[] = [
  ...SHARE_PARTS,
  { key: "other", label: "other code", category: Category.Unknown },
];

interface SharePart {
  key: keyof Shares;
  label: string;
  category: Category;
}

// The parts that are there, each with its share in words.
export function shownShares(shares: Shares): (SharePart & { share: number; text: string })[] {
  const whole = Object.values(shares).reduce((sum, value) => sum + value, 0);
  return PARTS.filter(({ key }) => shares[key] > 0).map((part) => ({
    ...part,
    share: shares[part.key] / whole,
    text: `${part.label} ${percent(shares[part.key], whole)}`,
  }));
}

export class Summary implements Panel {
  readonly root = byId("summary");
  private shown: Shares | null = null;
  private palette = "";
  private event = FIRST_EVENT;
  private subsystems: SubsystemRow[] = [];

  constructor(private readonly app: App) {
    const { preview } = app;
    byId("title").textContent = preview.title;
    this.showEvent(preview);
    byId("confidence").textContent = preview.confidence.join("; ");
    this.list("remark-list", preview.remarks);
    this.showWaits(preview.waits ?? []);
    byId("remarks").hidden = preview.remarks.length === 0;
    byId("remark-count").textContent =
      preview.remarks.length === 1 ? "1 note" : `${preview.remarks.length} notes`;
    this.markCut(byId("findings"));
    byId("fact-list").replaceChildren(
      ...preview.facts.flatMap(([name, value]) => [
        element("dt", { textContent: name }),
        element("dd", { textContent: value, dir: "auto" }),
      ]),
    );
  }

  // How it was recorded and what stands out, which differ from event to event.
  private showEvent({ how, findings, leads, subsystems }: { how: string } & Findings): void {
    byId("how").textContent = [this.app.preview.who, how].filter(Boolean).join(", ");
    this.list("findings", findings, leads);
    this.subsystems = subsystems;
    this.showSubsystems();
  }

  // As the summary for a terminal has them.
  private showSubsystems(): void {
    const { app, subsystems } = this;
    const lead = (name: string, title: string, search: string) => {
      const made = button(name, `Show ${title}`, () => app.find(search));
      made.className = "lead";
      return made;
    };
    byId("subsystems").replaceChildren(
      ...subsystems.map(({ label, share, search, category, members }) => {
        const named = members.map(([name, part, found], at) => [
          at ? ", " : "",
          found ? lead(name, name, found) : name,
          ` ${part}`,
        ]);
        return element(
          "li",
          { dir: "auto" },
          element("span", { className: "number", textContent: share }),
          swatch(app.fillOf(category)),
          lead(label, `${label} in the flame graph`, search),
          element("span", { className: "dim" }, " ", ...named.flat()),
        );
      }),
    );
    byId("subsystems").hidden = subsystems.length === 0;
  }

  // What loops and pools did, with links to their tracks.
  private showWaits(lines: [string, string][][]): void {
    byId("waits").replaceChildren(
      ...lines.map((pieces) =>
        element(
          "li",
          { dir: "auto" },
          ...pieces.map(([text, lead]) => {
            if (!lead) return text;
            const link = button(text, "Show in the tracks", () => this.app.follow(lead));
            link.className = "lead";
            return link;
          }),
        ),
      ),
    );
    byId("waits").hidden = lines.length === 0;
  }

  // A list that goes on below its edge fades out there: half a line looks like a fault.
  private markCut(list: HTMLElement): void {
    const update = () => {
      const left = list.scrollHeight - list.clientHeight - list.scrollTop;
      list.classList.toggle("is-cut", left > 2);
    };
    new ResizeObserver(update).observe(list);
    list.addEventListener("scroll", update, { passive: true });
  }

  private list(id: string, sentences: string[], leads: string[][] = []): void {
    const follow = (lead: string) => this.app.follow(lead);
    byId(id).replaceChildren(
      ...sentences.map((sentence, at) =>
        element("li", { dir: "auto" }, ...withCode(sentence, leads[at] ?? [], follow)),
      ),
    );
    byId(id).hidden = sentences.length === 0;
  }

  update(): void {
    const { shares, state, event, preview } = this.app;
    if (event !== this.event) {
      this.event = event;
      this.showEvent({ how: "", findings: [], leads: [], subsystems: [], ...preview.events?.[event] });
    }
    const isPart =
      state.range !== null || state.threads !== null || state.transforms.length > 0 || state.compare !== null;
    byId("answers").classList.toggle("of-whole", isPart);
    const palette = `${state.palette} ${this.app.isDark}`;
    if (!shares || (shares === this.shown && this.palette === palette)) return;
    this.shown = shares;
    if (this.palette !== palette) {
      this.palette = palette;
      this.showSubsystems();
    }
    const shown = shownShares(shares);
    byId("shares").replaceChildren(
      ...shown.map(({ share, text, category }) => {
        const part = element("span", { title: text });
        part.style.flexGrow = String(share);
        part.style.background = this.app.fillOf(category);
        return part;
      }),
    );
    byId("shares").ariaLabel = shown.map(({ text }) => text).join(", ");
    byId("share-legend").replaceChildren(
      ...shown.map(({ text, category }) => element("li", {}, swatch(this.app.fillOf(category)), text)),
    );
  }
}

const MAIN_THREAD = /(main thread)/;

// Names between backticks stand out, and lead to what they name; so does the main thread, which has
// the lead after the last name's.
function withCode(sentence: string, leads: string[], follow: (lead: string) => void): (Node | string)[] {
  const linked = (content: Node | string, lead: string | undefined) => {
    if (!lead) return content;
    const link = button("", "Show in the flame graph", () => follow(lead));
    link.className = "lead";
    link.append(content);
    return link;
  };
  const parts = sentence.split("`");
  const main = leads[parts.length >> 1];
  return parts.flatMap((part, at) => {
    if (at % 2) return [linked(element("code", { textContent: part }), leads[at >> 1])];
    return part.split(MAIN_THREAD).map((text, piece) => linked(text, piece % 2 ? main : undefined));
  });
}
