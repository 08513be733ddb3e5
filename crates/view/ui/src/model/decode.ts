// Decodes a recording in nodespy's own format, version 2, into columns of numbers. Sections and
// columns that the page has no use for are skipped.

import { Columns } from "./columns";
import { packagesOf } from "./packages";
import {
  type About, type FrameColumns, type FunctionColumns, type Process, type Profile, type SampleColumns,
  type Source, type StackColumns, Texts, type Thread, type Unit,
} from "./profile";

const MAGIC = [0x4e, 0x53, 0x50, 0x59, 0x0d, 0x0a, 0x1a, 0x0a];
const HEADER_BYTES = 16;
const PIECE = 1 << 20;
const VERSION = 2;
const UNITS: Unit[] = ["samples", "nanoseconds", "bytes"];
const SECTION = {
  end: 0, about: 1, strings: 3, functions: 4, frames: 5, stacks: 6, processes: 7, threads: 8, samples: 9,
  counts: 10, sources: 12,
};

export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  return native ? native.call(Uint8Array, text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// Takes a recording piece by piece and unpacks what it has, so that no copy of the whole packed
// file is ever held.
export class Unpacker {
  private readonly stream: DecompressionStream;
  private readonly writer: WritableStreamDefaultWriter<BufferSource>;
  private readonly unpacked: Promise<Uint8Array>;
  private isStarted = false;

  constructor() {
    if (!globalThis.DecompressionStream) {
      throw new Error("this browser cannot unpack recordings; any browser from 2023 on can");
    }
    this.stream = new DecompressionStream("gzip");
    this.writer = this.stream.writable.getWriter();
    this.unpacked = this.readAll();
    // Whoever asks for the profile gets the reason; nobody needs to hear it before.
    this.unpacked.catch(() => undefined);
  }

  async add(piece: Uint8Array): Promise<void> {
    const content = this.isStarted ? piece : withoutHeader(piece);
    this.isStarted = true;
    for (let at = 0; at < content.length; at += PIECE) {
      await this.writer.write(content.subarray(at, at + PIECE) as BufferSource);
    }
  }

  async finish(): Promise<Profile> {
    const [content] = await Promise.all([this.unpacked, this.writer.close()]);
    return parse(content);
  }

  private async readAll(): Promise<Uint8Array> {
    const reader = this.stream.readable.getReader();
    const parts: Uint8Array[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return joined(parts);
      parts.push(value);
    }
  }
}

function withoutHeader(file: Uint8Array): Uint8Array {
  if (file.length < HEADER_BYTES || MAGIC.some((byte, at) => file[at] !== byte)) throw new Error("this is no nodespy recording");
  const version = new DataView(file.buffer, file.byteOffset).getUint32(8, true);
  if (version !== VERSION) throw new Error(`this page cannot read version ${version} of the format`);
  return file.subarray(HEADER_BYTES);
}

function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

interface Section { id: number; columns: Columns }

export function parse(bytes: Uint8Array): Profile {
  const sections = sectionsOf(bytes);
  const all = (id: number) => sections.filter((section) => section.id === id).map((section) => section.columns);
  const texts = parseTexts(all(SECTION.strings));
  const functions = parseFunctions(all(SECTION.functions));
  const frames = parseFrames(all(SECTION.frames));
  const stacks = parseStacks(all(SECTION.stacks));
  const processes = all(SECTION.processes).flatMap(parseProcesses);
  const threads = all(SECTION.threads).flatMap(parseThreads);
  const samples = parseSamples(all(SECTION.samples), threads.length);
  const sources = all(SECTION.sources).flatMap(parseSources);
  const about = parseAbout(all(SECTION.about)[0]);
  checkRows(texts, functions, frames, stacks, samples, threads);
    return {
    texts, functions, frames, stacks, processes, threads, samples, sources, about,
    ...packagesOf(texts, functions), base: null, baseThreads: threads.length,
  };
}

function sectionsOf(bytes: Uint8Array): Section[] {
  const sections: Section[] = [];
  const content = new Columns(bytes, 0, bytes.length);
  for (;;) {
    const id = content.number();
    const length = content.number();
    if (id === SECTION.end) return sections;
    if (length > bytes.length - content.at) throw new Error(`a section is cut off at byte ${content.at}`);
    sections.push({ id, columns: new Columns(bytes, content.at, content.at + length) });
    content.at += length;
  }
}

// The rows of every section, and how many there are together.
function counted(sections: Columns[]): { rows: number[]; total: number } {
  const rows = sections.map((section) => section.rows());
  return { rows, total: rows.reduce((sum, count) => sum + count, 0) };
}

function parseAbout(section: Columns | undefined): About {
  if (!section) return { unit: "samples", app: "", host: "", rateHz: 0, started: 0, durationNs: 0 };
  const unit = UNITS[section.number()] ?? "samples";
  const [app, host] = section.texts(4) as [string, string];
  return { unit, app, host, rateHz: section.number(), started: section.number(), durationNs: section.number() };
}

function parseTexts(sections: Columns[]): Texts {
  const { rows, total } = counted(sections);
  const ends = new Uint32Array(total);
  const parts: Uint8Array[] = [];
  let at = 0;
  let end = 0;
  sections.forEach((section, index) => {
    const first = end;
    for (let row = 0; row < rows[index]; row++) ends[at++] = end += section.number();
    if (end - first > section.end - section.at) throw new Error(`the texts do not fit at byte ${section.at}`);
    parts.push(section.bytes.subarray(section.at, section.at + end - first));
  });
  return new Texts(joined(parts), ends);
}

function parseFunctions(sections: Columns[]): FunctionColumns {
  const { rows, total } = counted(sections);
  const functions: FunctionColumns = {
    name: new Int32Array(total), file: new Int32Array(total), line: new Uint32Array(total),
    column: new Uint32Array(total), category: new Uint8Array(total),
  };
  let from = 0;
  sections.forEach((section, index) => {
    const count = rows[index];
    section.into(functions.name, from, count);
    section.into(functions.file, from, count, -1);
    section.into(functions.line, from, count);
    section.into(functions.column, from, count);
    section.into(functions.category, from, count);
    from += count;
  });
  return functions;
}

function parseFrames(sections: Columns[]): FrameColumns {
  const { rows, total } = counted(sections);
  const frames: FrameColumns = {
    fn: new Int32Array(total), line: new Uint32Array(total), tier: new Uint8Array(total),
    isInlined: new Uint8Array(total),
  };
  let from = 0;
  sections.forEach((section, index) => {
    const count = rows[index];
    section.into(frames.fn, from, count);
    section.into(frames.line, from, count);
    section.skip(count); // the column being run
    section.into(frames.tier, from, count);
    section.into(frames.isInlined, from, count);
    from += count;
  });
  return frames;
}

function parseStacks(sections: Columns[]): StackColumns {
  const { rows, total } = counted(sections);
  const stacks: StackColumns = { parent: new Int32Array(total), frame: new Int32Array(total) };
  let from = 0;
  sections.forEach((section, index) => {
    const count = rows[index];
    for (let row = from; row < from + count; row++) {
      const back = section.number();
      stacks.parent[row] = back === 0 ? -1 : row - back;
    }
    section.into(stacks.frame, from, count);
    from += count;
  });
  return stacks;
}

function parseProcesses(section: Columns): Process[] {
  const rows = section.rows();
  const pids = section.into(new Uint32Array(rows), 0, rows);
  section.skip(rows);
  const names = section.texts(rows);
  const commands = section.texts(rows);
  const versions = Array.from({ length: rows }, () => (section.number() ? section.text(section.number()) : ""));
  return names.map((name, row) => ({ pid: pids[row], name, command: commands[row], version: versions[row] }));
}

function parseThreads(section: Columns): Thread[] {
  const rows = section.rows();
  const process = section.into(new Int32Array(rows), 0, rows);
  const tid = section.into(new Uint32Array(rows), 0, rows);
  const names = section.texts(rows);
  const role = section.into(new Uint8Array(rows), 0, rows);
  return names.map((name, row) => ({ process: process[row], tid: tid[row], name, role: role[row] }));
}

function parseSources(section: Columns): Source[] {
  const rows = section.rows();
  const files = section.into(new Int32Array(rows), 0, rows);
  return section.texts(rows).map((text, row) => ({ file: files[row], text }));
}

const WEIGHTS = { column: 0, same: 1, steps: 2 };

function parseSamples(sections: Columns[], threads: number): SampleColumns {
  const { rows, total } = counted(sections);
  const samples: SampleColumns = {
    time: new Float64Array(total),
    weight: null as SampleColumns["weight"],
    thread: threads <= 0xff ? new Uint8Array(total) : threads <= 0xffff ? new Uint16Array(total) : new Int32Array(total),
    stack: new Int32Array(total),
  };
  let from = 0;
  let time = 0;
  let stack = 0;
  sections.forEach((section, index) => {
    const end = from + rows[index];
    const unit = section.number();
    for (let row = from; row < end; row++) samples.time[row] = time += section.number() * unit;
    parseWeights(section, samples, from, end);
    section.into(samples.thread, from, end - from);
    for (let row = from; row < end; row++) samples.stack[row] = (stack += section.signed()) - 1;
    from = end;
  });
  return samples;
}

// A column of weights is only made once a weight is not 1, and of 32 bits as long as they do.
function parseWeights(section: Columns, samples: SampleColumns, from: number, end: number): void {
  const kind = section.number();
  if (kind === WEIGHTS.same) {
    const weight = section.number();
    if (weight !== 1 || samples.weight) for (let row = from; row < end; row++) setWeight(samples, row, weight);
  } else if (kind === WEIGHTS.steps) {
    for (let row = from; row + 1 < end; row++) setWeight(samples, row, samples.time[row + 1] - samples.time[row]);
    const last = section.number();
    if (end > from) setWeight(samples, end - 1, last);
  } else if (kind === WEIGHTS.column) {
    for (let row = from; row < end; row++) setWeight(samples, row, section.number());
  } else throw new Error(`unknown kind of weights at byte ${section.at}`);
}

function setWeight(samples: SampleColumns, row: number, weight: number): void {
  samples.weight ??= new Uint32Array(samples.time.length).fill(1);
  if (weight > 0xffffffff && samples.weight instanceof Uint32Array) samples.weight = Float64Array.from(samples.weight);
  samples.weight[row] = weight;
}

// Everything after this trusts the row numbers.
function checkRows(
  texts: Texts, functions: FunctionColumns, frames: FrameColumns, stacks: StackColumns, samples: SampleColumns,
  threads: Thread[],
): void {
  const check = (what: string, column: ArrayLike<number>, rows: number, least: number) => {
    for (let row = 0; row < column.length; row++) {
      const value = column[row];
      if (value < least || value >= rows) throw new Error(`row ${row} of ${what} points nowhere`);
    }
  };
  check("function names", functions.name, texts.ends.length, 0);
  check("files", functions.file, texts.ends.length, -1);
  check("frames", frames.fn, functions.name.length, 0);
  check("stacks", stacks.frame, frames.fn.length, 0);
  check("samples", samples.stack, stacks.frame.length, -1);
  check("threads", samples.thread, threads.length, 0);
  for (let row = 0; row < stacks.parent.length; row++) {
    if (stacks.parent[row] < -1) throw new Error(`stack ${row} has no such caller`);
  }
}
