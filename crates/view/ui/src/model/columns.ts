// Numbers and texts as a .nspy file writes them; see docs/native-format.md.

const UTF8 = new TextDecoder();

export type NumberArray = Int32Array | Uint32Array | Uint8Array | Uint16Array | Float64Array;

export class Columns {
  constructor(
    readonly bytes: Uint8Array,
    public at: number,
    readonly end: number,
  ) {}

  // The next number, or -1 where the bytes end before it does. Exact up to 2^53; larger numbers lose
  // their lowest bits.
  next(): number {
    const { bytes, end } = this;
    let at = this.at;
    let value = 0;
    for (let scale = 1; at < end; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) {
        this.at = at;
        return value;
      }
    }
    return -1;
  }

  number(): number {
    const value = this.next();
    if (value < 0) throw new Error(`the recording ends early, at byte ${this.end}`);
    return value;
  }

  // A folded number: 0, 1, 2, 3 stand for 0, -1, 1, -2.
  signed(): number {
    const folded = this.number();
    return folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
  }

  // A count of rows. Every row takes at least a byte, so a lie cannot reserve much.
  rows(): number {
    const rows = this.number();
    if (rows > this.end - this.at) throw new Error(`too many rows at byte ${this.at}`);
    return rows;
  }

  into<T extends NumberArray>(column: T, from: number, rows: number, added = 0): T {
    for (let row = 0; row < rows; row++) column[from + row] = this.number() + added;
    return column;
  }

  take(length: number): Uint8Array {
    if (length > this.end - this.at) throw new Error(`${length} bytes do not fit at byte ${this.at}`);
    return this.bytes.subarray(this.at, (this.at += length));
  }

  skip(rows: number): void {
    for (; rows > 0 && this.at < this.end; this.at++) if (this.bytes[this.at] < 128) rows--;
  }

  text(length: number): string {
    return UTF8.decode(this.take(length));
  }

  texts(rows: number): string[] {
    return Array.from({ length: rows }, () => this.text(this.number()));
  }
}

// Two columns as one; they may be typed by what they hold.
export function joined<T extends { readonly length: number }>(left: T, right: T): T {
  const made = new (left.constructor as new (length: number) => NumberArray)(left.length + right.length);
  made.set(left as unknown as NumberArray);
  made.set(right as unknown as NumberArray, left.length);
  return made as unknown as T;
}
