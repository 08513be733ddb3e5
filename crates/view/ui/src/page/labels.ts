// Names that fit into boxes: first the share goes, then the place, then the namespaces, then the middle.

import type { FunctionIndex } from "../model/indexes";
import { type Names, nameOf, shortPlace } from "../model/profile";
import { shortName } from "./words";

const MAX_LENGTH = 400;
const MAX_KNOWN = 50_000;
const MIN_BOTH_ENDS = 6; // letters
// A place in a module without symbols, such as [next-swc.node+0x44d2110].
const OFFSET = /^\[.+(\+0x[0-9a-f]+)\]$/;

// Letters of one or two code units.
const letterAt = (text: string, at: number): string =>
  (text.charCodeAt(at) & 0xfc00) === 0xd800 ? text.slice(at, at + 2) : text.charAt(at);
const letterBefore = (text: string, at: number): string =>
  (text.charCodeAt(at - 1) & 0xfc00) === 0xdc00 ? text.slice(at - 2, at) : text.charAt(at - 1);

export class Labels {
  private readonly widths = new Map<string, number>();
  private readonly short = new Map<number, string>();

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private names: Names,
  ) {}

  use(names: Names): void {
    if (names !== this.names) this.short.clear();
    this.names = names;
  }

  draw(
    fn: FunctionIndex,
    x: number,
    y: number,
    room: number,
    prefix: string,
    hasPlace: boolean,
    share = "",
  ): void {
    const name = this.nameOf(fn);
    const width = this.measure(prefix + name);
    const { context } = this;
    const offset = OFFSET.exec(name)?.[1];
    if (width <= room) {
      context.fillText(prefix + name, x, y);
      const place = hasPlace && !offset ? shortPlace(this.names, fn) : "";
      this.drawBeside(place, share, x + width + 8, y, room - width - 8);
      return;
    }
    if (offset) {
      // Functions of a module without symbols differ in their last digits alone.
      const text = this.measure(prefix + offset) <= room ? prefix + offset : this.cutStart(offset, room);
      if (text) context.fillText(text, x, y);
      return;
    }
    const place = name === "(anonymous)" ? shortPlace(this.names, fn) : "";
    if (place) {
      const isWhole = this.measure(prefix + place) <= room;
      const text = isWhole ? prefix + place : this.cutPlace(prefix, place, room);
      if (text) context.fillText(text, x, y);
      return;
    }
    const end = name.slice(name.lastIndexOf("::") + 2);
    const last = name.includes("::") && end ? `${prefix}…${end}` : "";
    const isShort = last !== "" && this.measure(last) <= room;
    const text = isShort ? last : this.cutMiddle(prefix, last ? end : name, room);
    if (text) context.fillText(text, x, y);
  }

  // A text that is no name.
  write(text: string, x: number, y: number, room: number): void {
    const shown = this.measure(text) <= room ? text : this.cut(text, room);
    if (shown) this.context.fillText(shown, x, y);
  }

  // The place and the share, the place alone, or nothing.
  private drawBeside(place: string, share: string, x: number, y: number, room: number): void {
    if (room < 24 || place.length > 200) return;
    const both = place && share ? `${place}  ${share}` : place || share;
    const text = this.measure(both) <= room ? both : place;
    if (!text || this.measure(text) > room) return;
    const strength = this.context.globalAlpha;
    this.context.globalAlpha = strength * 0.68;
    this.context.fillText(text, x, y);
    this.context.globalAlpha = strength;
  }

  private nameOf(fn: FunctionIndex): string {
    let name = this.short.get(fn);
    if (name === undefined) {
      name = shortName(nameOf(this.names, fn).slice(0, 4 * MAX_LENGTH)).slice(0, MAX_LENGTH);
      this.short.set(fn, name);
    }
    return name;
  }

  // As much of the start of `text` as fits, at least two letters. Letters are measured one by one,
  // each once: measuring every try would cost more than all the rest of a drawing, and so would
  // drawing what is a little too long narrower.
  private cut(text: string, room: number): string {
    let end = 0;
    let letters = 0;
    let left = room - this.measure("…");
    for (const letter of text) {
      left -= this.measure(letter);
      if (left < 0) break;
      end += letter.length;
      letters++;
    }
    return letters < 2 || end === text.length ? "" : `${text.slice(0, end)}…`;
  }

  // Start and end of a name: what many names begin with does not tell them apart. Where there is room for a
  // few letters, those of the start say most.
  private cutMiddle(prefix: string, name: string, room: number): string {
    let left = room - this.measure(`${prefix}…`);
    let [head, tail, letters] = [0, name.length, 0];
    for (let isHead = true; head < tail; isHead = !isHead) {
      const letter = isHead ? letterAt(name, head) : letterBefore(name, tail);
      left -= this.measure(letter);
      if (left < 0) break;
      if (isHead) head += letter.length;
      else tail -= letter.length;
      letters++;
    }
    if (letters < MIN_BOTH_ENDS) return this.cut(prefix + name, room);
    if (head >= tail) tail += letterAt(name, tail).length; // together letters may be wider than one by one
    return `${prefix}${name.slice(0, head)}…${name.slice(tail)}`;
  }

  // Functions without names are told apart by their lines, if a line fits as a whole.
  private cutPlace(prefix: string, place: string, room: number): string {
    const line = /:\d+$/.exec(place)?.[0] ?? "";
    if (!line || this.measure(prefix + line) > room) return this.cut(prefix + place, room);
    const end = this.cutStart(place, room - this.measure(prefix));
    return prefix + (end.length > line.length + 1 ? end : line);
  }

  // As much of the end as fits, at least two letters.
  private cutStart(text: string, room: number): string {
    let left = room - this.measure("…");
    let [start, letters] = [text.length, 0];
    while (start > 0) {
      const letter = letterBefore(text, start);
      left -= this.measure(letter);
      if (left < 0) break;
      start -= letter.length;
      letters++;
    }
    return letters < 2 ? "" : `…${text.slice(start)}`;
  }

  private measure(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      if (this.widths.size > MAX_KNOWN) this.widths.clear();
      this.widths.set(text, width);
    }
    return width;
  }
}
