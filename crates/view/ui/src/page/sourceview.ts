// Lines of a file with what they cost: beside the source where it was embedded, else as places to
// copy or to open in an editor.

import { NO_FUNCTION, NO_TEXT, type TextIndex } from "../model/indexes";
import type { LineWeights } from "../model/lines";
import { fileOf } from "../model/profile";
import type { Questions } from "../worker";
import { copy } from "./actions";
import type { App, Panel } from "./app";
import { button, element } from "./dom";
import { percent, points } from "./words";

const EDITOR_KEY = "nodespy.editor";
const MAX_LINE_LENGTH = 500;
const MAX_LINES = 20_000;

type Lines = Questions["lines"]["answer"];

export class SourceView implements Panel {
  readonly root = element("section", { id: "source", className: "view scrolls" });
  private shown: unknown[] = [];

  constructor(private readonly app: App) {}

  // The chosen file, or that of the chosen function, or the one that took the most time.
  private file(): TextIndex {
    const { app } = this;
    if (app.state.file >= 0) return app.state.file;
    const own = app.state.fn >= 0 ? (app.names.functions.file[app.state.fn] ?? NO_TEXT) : NO_TEXT;
    if (own >= 0) return own;
    return app.ask("files", { selection: app.selection() })?.[0]?.file ?? NO_TEXT;
  }

  update(): void {
    const { app } = this;
    this.root.hidden = app.state.view !== "source";
    if (this.root.hidden || !app.isReady) return;
    const files = app.ask("files", { selection: app.selection() });
    if (!files) return;
    const file = this.file();
    if (file < 0) {
      this.root.replaceChildren(
        element("p", { className: "empty", textContent: "This recording has no source lines." }),
      );
      return;
    }
    const lines = app.ask("lines", { selection: app.selection(), file });
    const inputs = [files, lines, file, app.state.fn];
    if (!lines || inputs.every((input, at) => input === this.shown[at])) return;
    this.shown = inputs;
    this.draw(file, files, lines);
  }

  private draw(file: TextIndex, files: { file: TextIndex; self: number }[], lines: Lines): void {
    const { app } = this;
    const path = app.names.texts.get(file);
    const { whole } = lines;
    const known = files.some((each) => each.file === file) ? files : [{ file, self: 0 }, ...files];
    const picker = element(
      "select",
      { id: "source-file" },
      ...known.slice(0, 300).map((each) =>
        element("option", {
          value: String(each.file),
          selected: each.file === file,
          textContent: `${percent(each.self, whole)}  ${app.names.texts.get(each.file)}`.slice(-160),
        }),
      ),
    );
    picker.addEventListener("change", () =>
      app.change({ file: Number(picker.value) as TextIndex, fn: NO_FUNCTION }),
    );
    const source = app.sources.find((each) => each.file === file)?.text ?? null;
    const bar = element(
      "div",
      { className: "view-bar" },
      element("label", {}, "File ", picker),
      button("Copy path", "", () => void copy(app, path)),
      this.editorLink(path, this.firstLine(lines)),
      button("Editor…", "Choose what opens files", () => this.askEditor()),
    );
    const note = element("p", {
      className: "dim note",
      textContent:
        source === null
          ? "The source itself is not in this file. Record or convert with --embed-source to see it here."
          : "",
    });
    this.root.replaceChildren(bar, ...(source === null ? [note] : []), this.table(path, source, lines));
    if (source !== null) this.root.querySelector(".hot")?.scrollIntoView({ block: "center" });
  }

  private firstLine(lines: LineWeights): number {
    const { fn } = this.app.state;
    if (fn >= 0 && fileOf(this.app.names, fn)) return this.app.names.functions.line[fn] || 1;
    let hottest = 0;
    for (let at = 1; at < lines.line.length; at++) if (lines.self[at] > lines.self[hottest]) hottest = at;
    return lines.line[hottest] ?? 1;
  }

  private table(path: string, source: string | null, lines: Lines): HTMLElement {
    const { app } = this;
    const { whole, baseSelf } = lines;
    const changeOf = (at: number) =>
      points(lines.self[at] / (whole || 1), (baseSelf![at] * app.baseFactor) / (whole || 1));
    const hottest = Math.max(...lines.self, 1e-9);
    const place = new Map(Array.from(lines.line, (line, at) => [line, at]));
    const text = source?.split("\n").slice(0, MAX_LINES) ?? null;
    const shown = text ? text.map((_, at) => at + 1) : [...lines.line];
    const rows = shown.map((line) => {
      const at = place.get(line);
      const self = at === undefined ? 0 : lines.self[at];
      const total = at === undefined ? 0 : lines.total[at];
      const content = text
        ? element("code", { textContent: text[line - 1].slice(0, MAX_LINE_LENGTH) || " " })
        : button(`${path}:${line}`, "Copy", () => void copy(app, `${path}:${line}`));
      const row = element(
        "tr",
        { className: self === hottest ? "hot" : "" },
        element("td", { className: "number", textContent: self > 0 ? percent(self, whole) : "" }),
        element("td", { className: "number", textContent: total > 0 ? percent(total, whole) : "" }),
        ...(baseSelf
          ? [element("td", { className: "number", textContent: at === undefined ? "" : changeOf(at) })]
          : []),
        element("td", { className: "number dim", textContent: String(line) }),
        element("td", { className: "line" }, content),
      );
      const heat = Math.round(10 + (self / hottest) * 60);
      if (self > 0) row.style.background = `color-mix(in srgb, var(--hot) ${heat}%, transparent)`;
      return row;
    });
    const change = baseSelf ? ["Self change"] : [];
    const head = ["Self", "Total", ...change, "Line", text ? "Source" : "Place"].map((label) =>
      element("th", { scope: "col", textContent: label, className: label.toLowerCase().replace(" ", "-") }),
    );
    return element(
      "table",
      { className: "source" },
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...rows),
    );
  }

  // The address that opens a file, such as vscode://file{file}:{line}.
  private editorLink(path: string, line: number): HTMLElement {
    const template = stored() || "vscode://file{file}:{line}";
    const address = template
      .replaceAll("{file}", encodeURI(path.replace(/^file:\/\//, "")))
      .replaceAll("{line}", String(line));
    const isSafe =
      /^[a-z][a-z0-9+.-]*:\/\//i.test(address) && !/^(javascript|data|blob|vbscript):/i.test(address);
    return isSafe
      ? element("a", { href: address, textContent: "Open in editor", title: address })
      : element("span");
  }

  private askEditor(): void {
    const answer = prompt(
      "Address that opens a file; {file} and {line} are filled in:",
      stored() || "vscode://file{file}:{line}",
    );
    if (answer === null) return;
    try {
      localStorage.setItem(EDITOR_KEY, answer);
    } catch {
      this.app.say("This browser stores no settings for pages opened from files.");
    }
    this.shown = [];
    this.update();
  }
}

function stored(): string {
  try {
    return localStorage.getItem(EDITOR_KEY) ?? "";
  } catch {
    return "";
  }
}
