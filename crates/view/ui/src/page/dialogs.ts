// The command palette and the help, both made of the list of actions.

import type { FunctionIndex } from "../model/indexes";
import { functionCount, nameOf, shortPlace } from "../model/profile";
import { ACTIONS, type Action } from "./actions";
import type { App } from "./app";
import { byId, element } from "./dom";

const MAX_FUNCTIONS = 30;

export function fillHelp(): void {
  const groups = [...new Set(ACTIONS.map((action) => action.group))];
  const extra: [string, string][] = [
    ["click, Enter", "Zoom into a box; ancestors stay"],
    ["arrows", "Walk from box to box"],
    ["right click, M", "Menu of a function"],
    ["Ctrl+click", "Drop samples with a function"],
    ["+ − a d", "Zoom and move sideways; Ctrl+wheel, pinch, drag"],
    ["n N", "Next and previous match"],
    ["Esc", "Close, clear the search, zoom out"],
  ];
  const keys = (pairs: [string, string][]) =>
    element(
      "dl",
      {},
      ...pairs.flatMap(([key, what]) => [
        element("dt", {}, element("kbd", { textContent: key })),
        element("dd", { textContent: what }),
      ]),
    );
  byId("help-body").replaceChildren(
    element("div", {}, element("h3", { textContent: "Moving" }), keys(extra)),
    ...groups.map((group) =>
      element(
        "div",
        {},
        element("h3", { textContent: group }),
        keys(
          ACTIONS.filter((action) => action.group === group && action.keys.length).map((action) => [
            action.keys.join(" "),
            action.label,
          ]),
        ),
      ),
    ),
  );
}

interface Entry {
  label: string;
  detail: string;
  run: () => void;
}

export class CommandPalette {
  private readonly dialog = byId<HTMLDialogElement>("palette");
  private readonly input = byId<HTMLInputElement>("palette-query");
  private readonly list = byId("palette-list");
  private entries: Entry[] = [];
  private current = 0;

  constructor(private readonly app: App) {
    this.input.addEventListener("input", () => this.fill());
    this.dialog.addEventListener("toggle", () => this.dialog.open && this.start());
    this.dialog.addEventListener("keydown", (event) => this.onKey(event));
    new MutationObserver(() => this.dialog.open && this.start()).observe(this.dialog, {
      attributeFilter: ["open"],
    });
  }

  private start(): void {
    this.input.value = "";
    this.fill();
    this.input.focus();
  }

  private fill(): void {
    const wanted = this.input.value.toLowerCase().trim();
    const words = wanted.split(/\s+/).filter(Boolean);
    const isMatch = (text: string) => words.every((word) => text.toLowerCase().includes(word));
    const commands = ACTIONS.filter((action) => action.run && isMatch(`${action.label} ${action.group}`)).map(
      (action) => this.command(action),
    );
    this.entries = [...commands, ...(wanted ? this.functions(isMatch) : [])];
    this.current = 0;
    this.draw();
  }

  private command(action: Action): Entry {
    return { label: action.label, detail: action.keys.join(" "), run: () => action.run!(this.app) };
  }

  private functions(isMatch: (text: string) => boolean): Entry[] {
    const { app } = this;
    const found: Entry[] = [];
    for (let fn = 0 as FunctionIndex; fn < functionCount(app.names) && found.length < MAX_FUNCTIONS; fn++) {
      const name = nameOf(app.names, fn);
      const place = shortPlace(app.names, fn);
      if (!isMatch(`${name} ${place}`)) continue;
      found.push({
        label: name.slice(0, 120),
        detail: place,
        run: () => app.change({ view: "sandwich", fn }),
      });
    }
    return found;
  }

  private draw(): void {
    this.list.replaceChildren(
      ...this.entries.map((entry, at) => {
        const row = element(
          "li",
          { id: `command-${at}` },
          element("bdi", { textContent: entry.label }),
          element("span", { className: "dim", textContent: entry.detail }),
        );
        row.setAttribute("role", "option");
        row.ariaSelected = String(at === this.current);
        row.addEventListener("click", () => this.run(at));
        return row;
      }),
    );
    this.input.setAttribute("aria-activedescendant", `command-${this.current}`);
    this.list.children[this.current]?.scrollIntoView({ block: "nearest" });
  }

  private run(at: number): void {
    this.dialog.close();
    this.entries[at]?.run();
  }

  private onKey(event: KeyboardEvent): void {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) {
      this.current = Math.max(0, Math.min(this.entries.length - 1, this.current + move));
      this.draw();
    } else if (event.key === "Enter") this.run(this.current);
    else return;
    event.preventDefault();
  }
}
