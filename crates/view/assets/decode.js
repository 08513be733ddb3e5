// Decodes nodespy's own format (version 1, see docs/native-format.md) into typed arrays.
// Tables become one typed array per column; -1 stands for "none". Sections and columns that the
// page has no use for are skipped.

const MAGIC = [0x4e, 0x53, 0x50, 0x59, 0x0d, 0x0a, 0x1a, 0x0a];
const HEADER_BYTES = 16;
const NEWEST_VERSION = 1;
const UNITS = ["samples", "nanoseconds", "bytes"];
const SECTION = {
  end: 0, about: 1, strings: 3, functions: 4, frames: 5,
  stacks: 6, processes: 7, threads: 8, samples: 9,
};

class Columns {
  constructor(bytes, at, end) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
  }

  // Exact up to 2^53; larger numbers lose their lowest bits.
  number() {
    let value = 0;
    for (let scale = 1; this.at < this.end; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw new Error(`the recording ends early, at byte ${this.at}`);
  }

  rows() {
    const rows = this.number();
    if (rows > this.end - this.at) throw new Error(`too many rows at byte ${this.at}`);
    return rows;
  }

  column(Type, rows, offset = 0) {
    const column = new Type(rows);
    for (let row = 0; row < rows; row++) column[row] = this.number() + offset;
    return column;
  }

  text(length) {
    if (length > this.end - this.at) throw new Error(`a text does not fit at byte ${this.at}`);
    return UTF8.decode(this.bytes.subarray(this.at, this.at += length));
  }

  string() {
    return this.text(this.number());
  }

  list(rows, value) {
    return Array.from({ length: rows }, () => value());
  }
}

const UTF8 = new TextDecoder();

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

async function decodeRecording(base64) {
  const file = fromBase64(base64);
  if (MAGIC.some((byte, at) => file[at] !== byte)) throw new Error("this is no nodespy recording");
  const version = new DataView(file.buffer).getUint32(8, true);
  if (version > NEWEST_VERSION) throw new Error(`this page cannot read version ${version}`);
  if (!globalThis.DecompressionStream) {
    throw new Error("this browser cannot unpack recordings; any browser from 2023 on can");
  }
  const packed = new Blob([file.subarray(HEADER_BYTES)]).stream();
  const unpacked = packed.pipeThrough(new DecompressionStream("gzip"));
  return parseSections(new Uint8Array(await new Response(unpacked).arrayBuffer()));
}

function parseSections(bytes) {
  const parts = {
    about: {}, strings: [], functions: [], frames: [], stacks: [],
    processes: [], threads: [], samples: [],
  };
  const columns = new Columns(bytes, 0, bytes.length);
  for (;;) {
    const id = columns.number();
    const length = columns.number();
    if (id === SECTION.end) break;
    const section = new Columns(bytes, columns.at, Math.min(columns.at + length, bytes.length));
    parseSection(id, section, parts);
    columns.at += length;
  }
  return {
    ...parts,
    functions: joined(parts.functions),
    frames: joined(parts.frames),
    stacks: joined(parts.stacks),
    samples: joined(parts.samples),
  };
}

function parseSection(id, section, parts) {
  if (id === SECTION.about) {
    const unit = UNITS[section.number()];
    const [, host] = section.list(4, () => section.string());
    section.number();
    parts.about = { unit, host, startedUnix: section.number() };
  } else if (id === SECTION.strings) {
    for (const length of section.column(Float64Array, section.rows())) {
      parts.strings.push(section.text(length));
    }
  } else if (id === SECTION.functions) {
    const rows = section.rows();
    parts.functions.push({
      name: section.column(Int32Array, rows), file: section.column(Int32Array, rows, -1),
      line: section.column(Uint32Array, rows), column: section.column(Uint32Array, rows),
      category: section.column(Uint8Array, rows),
    });
  } else if (id === SECTION.frames) {
    const rows = section.rows();
    parts.frames.push({
      fn: section.column(Int32Array, rows), line: section.column(Uint32Array, rows),
      column: section.column(Uint32Array, rows), tier: section.column(Uint8Array, rows),
      isInlined: section.column(Uint8Array, rows),
    });
  } else if (id === SECTION.stacks) {
    const rows = section.rows();
    const first = parts.stacks.reduce((sum, part) => sum + part.parent.length, 0);
    const parent = section.column(Int32Array, rows);
    for (let row = 0; row < rows; row++) {
      parent[row] = parent[row] ? first + row - parent[row] : -1;
    }
    parts.stacks.push({ parent, frame: section.column(Int32Array, rows) });
  } else if (id === SECTION.processes) {
    const rows = section.rows();
    const pid = section.column(Uint32Array, rows);
    section.column(Uint32Array, rows);
    for (let row = 0; row < rows; row++) parts.processes.push({ pid: pid[row], name: section.string() });
  } else if (id === SECTION.threads) {
    const rows = section.rows();
    const process = section.column(Int32Array, rows);
    const tid = section.column(Uint32Array, rows);
    const name = section.list(rows, () => section.string());
    const role = section.column(Uint8Array, rows);
    for (let row = 0; row < rows; row++) {
      parts.threads.push({ process: process[row], tid: tid[row], name: name[row], role: role[row] });
    }
  } else if (id === SECTION.samples) {
    const rows = section.rows();
    const time = section.column(Float64Array, rows);
    const before = parts.samples.at(-1);
    let now = before ? before.time.at(-1) : 0;
    for (let row = 0; row < rows; row++) time[row] = now += time[row];
    parts.samples.push({
      time, weight: section.column(Float64Array, rows), thread: section.column(Int32Array, rows),
      stack: section.column(Int32Array, rows, -1),
    });
  }
}

// One table of parts that each hold some of its rows.
function joined(parts) {
  if (parts.length === 0) return new Proxy({}, { get: () => new Int32Array(0) });
  if (parts.length === 1) return parts[0];
  const table = {};
  for (const key of Object.keys(parts[0])) {
    const rows = parts.reduce((sum, part) => sum + part[key].length, 0);
    table[key] = new parts[0][key].constructor(rows);
    let at = 0;
    for (const part of parts) {
      table[key].set(part[key], at);
      at += part[key].length;
    }
  }
  return table;
}
