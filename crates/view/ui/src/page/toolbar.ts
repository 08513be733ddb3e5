// Tabs, search, switches, and the chips that say what is left out and undo it.

import type { EventIndex } from "../model/indexes";
import { ALL } from "../model/profile";
import { STATE_LABELS, STATES } from "../model/states";
import { CATEGORY_LABELS, Category, TIER_LABELS, Tier } from "../model/tables";
import type { Transform } from "../model/transforms";
import { ROOT } from "../model/tree";
import { WIDTHS, type Widths } from "../model/widths";
import { type Action, type ActionId, action, isOnlyJavaScript, isOnlyMine } from "./actions";
import type { App, Panel } from "./app";
import { diffFill, PALETTES, type Palette, selfFill, stateFill } from "./colors";
import { button, byId, element, swatch } from "./dom";
import { VIEWS } from "./state";
import { duration, moment, percent } from "./words";

// Hiding plumbing is a switch of its own.
const SWITCHES = CATEGORY_LABELS.map((_, at) => at).filter((at) => at !== Category.Internal);
const BEST_TIER_FIRST = [Tier.Optimized, Tier.Maglev, Tier.Baseline, Tier.Interpreted];

const WIDTH_LABELS: Record<Widths, string> = {
  after: "Widths: after",
  before: "Widths: before",
  both: "Widths: both",
  change: "Widths: difference",
};

// Elements of page.html with what they do.
const BUTTONS: [string, ActionId][] = [
  ["zoom-out", "zoomOut"],
  ["icicle", "rootSide"],
  ["from-leaf", "fromLeaf"],
  ["by-name", "order"],
  ["only-mine", "onlyMine"],
  ["only-javascript", "onlyJavaScript"],
  ["internals", "internals"],
  ["async", "async"],
  ["by-route", "byRoute"],
  ["proportional", "proportional"],
  ["only-changed", "onlyChanged"],
  ["theme", "theme"],
  ["commands", "commands"],
  ["help-open", "help"],
];

export class Toolbar implements Panel {
  readonly root = byId("toolbar");
  private legendKey = "";
  private palettes = 0; // how many are listed
  private routes = ""; // the routes that are listed, with their shares

  constructor(private readonly app: App) {
    for (const name of VIEWS) byId(`tab-${name}`).addEventListener("click", () => app.change({ view: name }));
    const query = byId<HTMLInputElement>("query");
    query.addEventListener("input", () => app.change({ query: query.value }, false));
    this.check("is-regexp", "isRegExp");
    this.check("is-exact", "isExact");
    for (const [id, does] of BUTTONS) this.press(id, action(does));
    this.listEvents();
    const widths = byId<HTMLSelectElement>("widths");
    widths.replaceChildren(
      ...WIDTHS.map((value) => element("option", { value, textContent: WIDTH_LABELS[value] })),
    );
    widths.addEventListener("change", () => app.change({ widths: widths.value as Widths, zoom: [] }));
    const route = byId<HTMLSelectElement>("route");
    route.addEventListener("change", () => app.change({ route: route.value || null, zoom: [] }));
    const palette = byId<HTMLSelectElement>("colors");
    this.listPalettes();
    palette.addEventListener("change", () => app.change({ palette: palette.value as Palette }, false));
  }

  // States are there once the recording is read, if it has any.
  private listPalettes(): void {
    const hasStates = this.app.states.length > 0;
    const shown = PALETTES.filter(([value]) => value !== "state" || hasStates);
    if (this.palettes === shown.length) return;
    this.palettes = shown.length;
    byId("colors").replaceChildren(
      ...shown.map(([value, textContent]) => element("option", { value, textContent })),
    );
  }

  // Routes are there once the recording is read, if samples have any; their shares are those of the event.
  private listRoutes(): void {
    const { app } = this;
    const { routes } = app;
    const key = JSON.stringify(routes);
    if (key !== this.routes) {
      this.routes = key;
      const options = routes.map(({ name, share }) =>
        element("option", { value: name, textContent: `${share}  ${name}` }),
      );
      byId("route").replaceChildren(element("option", { value: "", textContent: "All routes" }), ...options);
    }
    byId("route").hidden = routes.length === 0;
    byId<HTMLSelectElement>("route").value = app.state.route ?? "";
  }

  // The control is there when there is a choice.
  private listEvents(): void {
    const { app } = this;
    const { events } = app.preview;
    byId("event-choice").hidden = !events;
    const select = byId<HTMLSelectElement>("event");
    const options = (events ?? []).map(({ label, total }, at) =>
      element("option", { value: String(at), textContent: `${label} · ${total}` }),
    );
    select.replaceChildren(...options);
    select.addEventListener("change", () => app.chooseEvent(Number(select.value) as EventIndex));
  }

  private check(id: string, key: "isRegExp" | "isExact"): void {
    const box = byId<HTMLInputElement>(id);
    box.addEventListener("change", () => this.app.change({ [key]: box.checked }, false));
  }

  private press(id: string, { label, keys, run }: Action): void {
    byId(id).title ||= `${label} (${keys[0]})`;
    byId(id).addEventListener("click", () => run!(this.app));
  }

  update(): void {
    const { app } = this;
    const { state } = app;
    document.documentElement.dataset.theme = state.theme;
    for (const name of VIEWS) {
      byId(`tab-${name}`).ariaSelected = String(state.view === name);
      byId(`tab-${name}`).tabIndex = state.view === name ? 0 : -1;
    }
    const query = byId<HTMLInputElement>("query");
    if (query.value !== state.query) query.value = state.query;
    query.classList.toggle("bad", app.badQuery !== "");
    query.ariaInvalid = String(app.badQuery !== "");
    byId<HTMLInputElement>("is-regexp").checked = state.isRegExp;
    byId<HTMLInputElement>("is-exact").checked = state.isExact;
    this.listPalettes();
    this.listRoutes();
    byId<HTMLSelectElement>("colors").value = state.palette;
    byId<HTMLSelectElement>("event").value = String(state.event);
    this.showMatched();
    const pressed: [string, boolean][] = [
      ["icicle", state.isIcicle],
      ["from-leaf", state.isFromLeaf],
      ["by-name", state.order === "name"],
      ["only-mine", isOnlyMine(state)],
      ["only-javascript", isOnlyJavaScript(state)],
      ["internals", state.hasInternals],
      ["async", state.hasAsync],
      ["by-route", state.isByRoute],
      ["proportional", state.isProportional],
      ["only-changed", state.isOnlyChanged],
    ];
    byId<HTMLSelectElement>("widths").value = state.widths;
    for (const [id, isOn] of pressed) byId(id).ariaPressed = String(isOn);
    const isGraph = state.view === "flame" || state.view === "sandwich";
    byId("icicle").hidden = byId("from-leaf").hidden = state.view !== "flame" && state.view !== "tree";
    if (state.view === "tree") byId("icicle").hidden = true;
    byId("async").hidden = !app.hasAsync;
    byId("by-route").hidden = !app.hasRoutes;
    byId("by-name").hidden = !isGraph && state.view !== "tree";
    byId("proportional").hidden = state.compare === null;
    byId("widths").hidden = state.compare === null || !isGraph;
    byId("only-changed").hidden = app.verdicts === null || (!isGraph && state.view !== "top");
    byId("zoom-out").hidden = state.zoom.length === 0 && state.window === null;
    this.showChips();
    this.showLegend();
  }

  private showMatched(): void {
    const { badQuery, found } = this.app;
    const matched = found ? `matched ${percent(found.matched, found.whole)}` : "";
    byId("matched").textContent = badQuery.slice(0, 60) || matched;
  }

  private showChips(): void {
    const { app } = this;
    const { state } = app;
    const chips: HTMLElement[] = [];
    const chip = (text: string, title: string, remove: () => void) => {
      const made = element("span", { className: "chip", title }, element("bdi", { textContent: text }));
      const cross = button("×", `Remove: ${text.slice(0, 80)}`, remove);
      cross.ariaLabel = `Remove: ${text.slice(0, 80)}`;
      made.append(cross);
      chips.push(made);
    };
    if (state.range) {
      const { from, to } = state.range;
      chip(
        `${moment(from, (to - from) / 10)} – ${moment(to, (to - from) / 10)} (${duration(to - from)})`,
        "Only samples of this time",
        () => app.change({ range: null, zoom: [] }),
      );
    }
    if (state.compare) {
      const text =
        state.compare === "base"
          ? "compared with the base profile"
          : `compared with ${moment(state.compare.from, 1e7)} – ${moment(state.compare.to, 1e7)}`;
      chip(text, "Colours show what became more and what became less", () => app.change({ compare: null }));
      const headline = app.verdicts?.sent.headline;
      if (headline) chips.push(element("span", { className: "dim", id: "compared", textContent: headline }));
    } else if (app.hasBase) {
      chips.push(button("Compare with the base profile", "", () => app.change({ compare: "base" })));
    }
    if (state.threads) {
      const [first] = state.threads;
      const text =
        state.threads.length === 1
          ? `thread ${app.names.threads[first]?.name || first}`
          : `${state.threads.length} threads`;
      chip(text, "Only samples of these threads", () => app.change({ threads: null, zoom: [] }));
    }
    if (state.route !== null)
      chip(`route ${state.route}`, "Only samples of requests of this route", () =>
        app.change({ route: null, zoom: [] }),
      );
    if (state.only !== null)
      chip(`only ${STATE_LABELS[state.only]}`, "Only samples of threads in this state", () =>
        app.change({ only: null, zoom: [] }),
      );
    state.transforms.forEach((transform, at) =>
      chip(this.nameOf(transform), "A step; later steps stay", () =>
        app.change({ transforms: state.transforms.filter((_, other) => other !== at), zoom: [] }),
      ),
    );
    if (state.isStartOpen && state.view === "flame" && !state.isFromLeaf && app.folds)
      chip("every frame of the start", "Frames below the first branch (b)", () =>
        app.change({ isStartOpen: false }),
      );
    if (app.answers.tree.answer && app.tree.total[ROOT] < app.whole * 0.9995) {
      chips.push(
        element("span", {
          className: "dim",
          textContent: `${percent(app.tree.total[ROOT], app.whole)} of the samples`,
        }),
      );
    }
    byId("chips").replaceChildren(...chips);
    byId("chips").hidden = chips.length === 0;
  }

  private nameOf(transform: Transform): string {
    const { app } = this;
    switch (transform.kind) {
      case "focus":
        return `focus ${app.nameOf(transform.fn)}`;
      case "subtree":
        return `subtree ${app.nameOf(transform.path.at(-1) ?? ALL)}`;
      case "merge":
        return `without ${app.nameOf(transform.fn)}`;
      case "drop":
        return `no samples with ${app.nameOf(transform.fn)}`;
      case "recursion":
        return `no recursion of ${app.nameOf(transform.fn)}`;
      case "package":
        return `package ${app.names.packages[transform.package] ?? ""} as one`;
    }
  }

  // The legend is also where categories are switched off and on.
  private showLegend(): void {
    const { app } = this;
    const { state, names } = app;
    const key = JSON.stringify([
      state.palette,
      state.hidden,
      state.compare !== null,
      app.verdicts !== null,
      app.isDark,
      app.states.length,
      names.functions.name.length,
    ]);
    if (key === this.legendKey) return;
    this.legendKey = key;
    const isByState = state.palette === "state" && app.states.length > 0;
    const isBySelf = state.palette === "self";
    const used = new Set(names.functions.category);
    const switches = SWITCHES.filter((at) => used.has(at)).map((at) => {
      const isShown = !state.hidden.includes(at);
      const made = button(
        "",
        `${isShown ? "Leave out" : "Show"} ${CATEGORY_LABELS[at]}: its time goes to its callers`,
        () =>
          app.change({
            hidden: isShown ? [...state.hidden, at] : state.hidden.filter((other) => other !== at),
            zoom: [],
          }),
      );
      made.className = "category";
      // In a diff, boxes do not have the colours of their categories.
      made.append(
        ...(state.compare || isByState || isBySelf ? [] : [swatch(app.fillOf(at))]),
        CATEGORY_LABELS[at],
      );
      made.ariaPressed = String(isShown);
      return made;
    });
    const tiers = element(
      "span",
      { className: "tiers dim" },
      "tiers:",
      ...BEST_TIER_FIRST.flatMap((tier) => [swatch(app.fillOf(Category.App, tier)), TIER_LABELS[tier]]),
    );
    const diff = element(
      "span",
      { className: "tiers dim" },
      "less",
      ...[-1, -0.5, 0, 0.5, 1].map((change) => swatch(diffFill(change, app.isDark))),
      "more",
      ...(app.verdicts ? [swatch(app.colors.rest), "may be noise"] : []),
    );
    const states = element(
      "span",
      { className: "tiers dim" },
      "mostly:",
      ...STATES.flatMap((each) => [swatch(stateFill({ state: each, wait: "" })), STATE_LABELS[each]]),
    );
    const selves = element(
      "span",
      { className: "tiers dim" },
      "self time of the function:",
      ...[0, 0.33, 0.67, 1].map((share) => swatch(selfFill(share, app.isDark))),
      "most",
    );
    const other = isByState ? states : isBySelf ? selves : tiers;
    byId("legend").replaceChildren(...switches, state.compare ? diff : other);
  }
}
