// Unpacks a recording as it arrives, section by section, so that neither the packed nor the
// unpacked file is ever held whole.

import { Columns } from "./columns";
import { Tables } from "./decode";
import type { Recording } from "./profile";

const MAGIC = [0x4e, 0x53, 0x50, 0x59, 0x0d, 0x0a, 0x1a, 0x0a];
const HEADER_BYTES = 16;
const CHUNK_SIZE = 1 << 20;
const VERSIONS = [3, 4, 5];
const END = 0;

export function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  return native
    ? native.call(Uint8Array, text)
    : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export class Unpacker {
  private readonly stream: DecompressionStream;
  private readonly writer: WritableStreamDefaultWriter<BufferSource>;
  private readonly recording: Promise<Recording>;
  private isStarted = false;

  constructor() {
    if (!globalThis.DecompressionStream) {
      throw new Error("this browser cannot unpack recordings; any browser from 2023 on can");
    }
    this.stream = new DecompressionStream("gzip");
    this.writer = this.stream.writable.getWriter();
    this.recording = this.readAll();
    // `finish` reports why it failed; until then the rejection is not unhandled.
    this.recording.catch(() => undefined);
  }

  async add(chunk: Uint8Array): Promise<void> {
    const content = this.isStarted ? chunk : withoutHeader(chunk);
    this.isStarted = true;
    for (let at = 0; at < content.length; at += CHUNK_SIZE) {
      await this.writer.write(content.subarray(at, at + CHUNK_SIZE) as BufferSource);
    }
  }

  async finish(): Promise<Recording> {
    const closed = this.writer.close();
    closed.catch(() => undefined); // what could not be read says more
    const recording = await this.recording;
    await closed;
    return recording;
  }

  private async readAll(): Promise<Recording> {
    const reader = this.stream.readable.getReader();
    const sections = new Sections();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return sections.finish();
        sections.add(value);
      }
    } catch (error) {
      void reader.cancel(error);
      throw error;
    }
  }
}

function withoutHeader(file: Uint8Array): Uint8Array {
  if (file.length < HEADER_BYTES || MAGIC.some((byte, at) => file[at] !== byte))
    throw new Error("this is no nodespy recording");
  const version = new DataView(file.buffer, file.byteOffset).getUint32(8, true);
  if (!VERSIONS.includes(version)) throw new Error(`this page cannot read version ${version} of the format`);
  return file.subarray(HEADER_BYTES);
}

// Cuts the unpacked bytes into sections and hands each over when it is whole.
class Sections {
  private readonly tables = new Tables();
  private waiting = new Uint8Array(1 << 16);
  private length = 0;
  private isOver = false;

  add(bytes: Uint8Array): void {
    if (this.length + bytes.length > this.waiting.length) {
      const larger = new Uint8Array(Math.max(this.length + bytes.length, this.waiting.length * 2));
      larger.set(this.waiting.subarray(0, this.length));
      this.waiting = larger;
    }
    this.waiting.set(bytes, this.length);
    this.length += bytes.length;
    let taken = 0;
    for (let end = this.sectionEnd(taken); end > 0 && !this.isOver; end = this.sectionEnd(taken)) {
      const section = new Columns(this.waiting, taken, end);
      const id = section.number();
      section.number(); // the length, known by now
      if (id === END) this.isOver = true;
      else this.tables.take(id, section);
      taken = end;
    }
    this.waiting.copyWithin(0, taken, this.length);
    this.length -= taken;
  }

  // Where the section that starts at a byte ends; 0 while it is not whole.
  private sectionEnd(start: number): number {
    const head = new Columns(this.waiting, start, this.length);
    const [id, length] = [head.next(), head.next()];
    const end = head.at + length;
    return id >= 0 && length >= 0 && end <= this.length ? end : 0;
  }

  finish(): Recording {
    if (!this.isOver) throw new Error("the recording is cut off");
    return this.tables.finish();
  }
}
