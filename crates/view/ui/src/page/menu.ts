// The menu of a box or a row: what can be done with its function.

import type { Action } from "./actions";
import type { App, Target } from "./app";
import { byId, element } from "./dom";

export class Menu {
  readonly root = element("div", { id: "menu", className: "sheet menu", hidden: true });
  private target: Target | null = null;
  private before: HTMLElement | null = null;

  constructor(
    private readonly app: App,
    private readonly actions: () => readonly Action[],
  ) {
    this.root.setAttribute("role", "menu");
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("pointerdown", (event) => {
      if (!this.root.contains(event.target as Node)) this.close();
    });
  }

  get isOpen(): boolean {
    return !this.root.hidden;
  }

  open(target: Target | null, x: number, y: number): void {
    if (!target || target.fn < 0) return;
    this.target = target;
    byId("tooltip").hidden = true;
    this.before = document.activeElement as HTMLElement | null;
    const items = this.actions().filter(
      (action) => action.onTarget && (action.isPossible?.(this.app, target) ?? true),
    );
    this.root.replaceChildren(
      element("div", {
        className: "menu-title",
        textContent: this.app.nameOf(target.fn).slice(0, 120),
        dir: "auto",
      }),
      ...items.map((action) => this.item(action)),
    );
    this.root.hidden = false;
    const box = this.root.getBoundingClientRect();
    this.root.style.left = `${Math.max(4, Math.min(x, innerWidth - box.width - 6))}px`;
    this.root.style.top = `${Math.max(4, Math.min(y, innerHeight - box.height - 6))}px`;
    this.root.querySelector<HTMLElement>("[role=menuitem]")?.focus();
  }

  private item(action: Action): HTMLElement {
    const item = element(
      "button",
      { type: "button", className: "menu-item", tabIndex: -1 },
      element("span", { textContent: action.label }),
      element("kbd", { textContent: action.keys[0] ?? "" }),
    );
    item.setAttribute("role", "menuitem");
    item.addEventListener("click", () => {
      const { target } = this;
      this.close();
      if (target) action.onTarget!(this.app, target);
    });
    return item;
  }

  close(): void {
    if (this.root.hidden) return;
    this.root.hidden = true;
    this.before?.focus();
  }

  private onKey(event: KeyboardEvent): void {
    const items = [...this.root.querySelectorAll<HTMLElement>("[role=menuitem]")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const goal = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.close();
    else if (goal !== undefined) items[(goal + items.length) % items.length]?.focus();
    else {
      const action = this.actions().find((each) => each.onTarget && each.keys.includes(event.key));
      if (!action || event.ctrlKey || event.metaKey) return;
      const { target } = this;
      this.close();
      if (target) action.onTarget!(this.app, target);
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
