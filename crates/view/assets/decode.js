// Decodes nodespy's own format (versions 1 and 2, see docs/native-format.md) into typed arrays, one per
// column; -1 stands for "none". Sections and columns that the page has no use for are skipped.

const MAGIC = [0x4e, 0x53, 0x50, 0x59, 0x0d, 0x0a, 0x1a, 0x0a];
const HEADER_BYTES = 16;
const NEWEST_VERSION = 2;
const UNITS = ["samples", "nanoseconds", "bytes"];
const SECTION = { end: 0, about: 1, strings: 3, processes: 7, threads: 8, samples: 9 };
// Tables of numbers by section: the columns with their type and what is added to each value. A
// column without a type is skipped.
const TABLES = {
  4: ["functions", [["name", Int32Array, 0], ["file", Int32Array, -1], ["line", Uint32Array, 0],
    ["column", Uint32Array, 0], ["category", Uint8Array, 0]]],
  5: ["frames", [["fn", Int32Array, 0], ["line"], ["column"], ["tier", Uint8Array, 0],
    ["isInlined", Uint8Array, 0]]],
  6: ["stacks", [["parent", Int32Array, 0], ["frame", Int32Array, 0]]],
};
const SAMPLES = ["samples", [["weight", Float64Array], ["thread", Int32Array], ["stack", Int32Array]]];
// How version 2 holds weights: each, one for all, or the time to the next sample.
const WEIGHTS = { each: 0, equal: 1, untilNext: 2 };
const UTF8 = new TextDecoder();

class Columns {
  constructor(bytes, at, end) {
    Object.assign(this, { bytes, at, end });
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

  column(Type, rows, added = 0) {
    const column = new Type(rows);
    for (let row = 0; row < rows; row++) column[row] = this.number() + added;
    return column;
  }

  skip(rows) {
    for (; rows > 0 && this.at < this.end; this.at++) if (this.bytes[this.at] < 128) rows--;
  }

  text(length) {
    if (length > this.end - this.at) throw new Error(`a text does not fit at byte ${this.at}`);
    return UTF8.decode(this.bytes.subarray(this.at, this.at += length));
  }

  strings(rows) {
    return Array.from({ length: rows }, () => this.text(this.number()));
  }
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// A recording comes as base64 in pieces of whole bytes.
async function decodeRecording(pieces) {
  const file = new Uint8Array(await new Blob(pieces.map(fromBase64)).arrayBuffer());
  if (MAGIC.some((byte, at) => file[at] !== byte)) throw new Error("this is no nodespy recording");
  const version = new DataView(file.buffer).getUint32(8, true);
  if (version > NEWEST_VERSION) throw new Error(`this page cannot read version ${version}`);
  if (!globalThis.DecompressionStream) {
    throw new Error("this browser cannot unpack recordings; any browser from 2023 on can");
  }
  const packed = new Blob([file.subarray(HEADER_BYTES)]).stream();
  const unpacked = packed.pipeThrough(new DecompressionStream("gzip"));
  return parseSections(new Uint8Array(await new Response(unpacked).arrayBuffer()), version);
}

function parseSections(bytes, version) {
  const profile = { about: {}, strings: [], processes: [], threads: [] };
  const parts = { functions: [], frames: [], stacks: [], samples: [] };
  const content = new Columns(bytes, 0, bytes.length);
  for (;;) {
    const id = content.number();
    const length = content.number();
    if (id === SECTION.end) break;
    const section = new Columns(bytes, content.at, Math.min(content.at + length, bytes.length));
    if (id === SECTION.samples) parts.samples.push(parseSamples(section, version, parts.samples.at(-1)));
    else if (TABLES[id]) parseTable(section, TABLES[id], parts);
    else parseSection(id, section, profile);
    content.at += length;
  }
  for (const [name, columns] of [...Object.values(TABLES), SAMPLES]) profile[name] = joined(parts[name], columns);
  const { parent } = profile.stacks;
  for (let row = 0; row < parent.length; row++) parent[row] = parent[row] ? row - parent[row] : -1;
  return profile;
}

function parseTable(section, [name, columns], parts) {
  const rows = section.rows();
  const part = {};
  for (const [key, Type, added] of columns) {
    if (Type) part[key] = section.column(Type, rows, added);
    else section.skip(rows);
  }
  parts[name].push(part);
}

// The stacks of version 2 go on from the last one of the part before.
function parseSamples(section, version, before) {
  const rows = section.rows();
  if (version === 1) {
    section.skip(rows);
    return { weight: section.column(Float64Array, rows), thread: section.column(Int32Array, rows),
      stack: section.column(Int32Array, rows, -1) };
  }
  const unit = section.number();
  const steps = section.column(Float64Array, rows);
  const weight = parseWeights(section, unit, steps);
  const thread = section.column(Int32Array, rows);
  const stack = new Int32Array(rows);
  let last = before ? before.stack.at(-1) : -1;
  for (let row = 0; row < rows; row++) {
    const folded = section.number();
    last += folded % 2 ? -(folded + 1) / 2 : folded / 2;
    stack[row] = last;
  }
  return { weight, thread, stack };
}

function parseWeights(section, unit, steps) {
  const kind = section.number();
  if (kind === WEIGHTS.each) return section.column(Float64Array, steps.length);
  if (kind !== WEIGHTS.equal && kind !== WEIGHTS.untilNext) throw new Error(`weights of an unknown kind ${kind}`);
  const weight = new Float64Array(steps.length).fill(section.number());
  if (kind === WEIGHTS.untilNext) {
    for (let row = 1; row < steps.length; row++) weight[row - 1] = steps[row] * unit;
  }
  return weight;
}

function parseSection(id, section, profile) {
  if (id === SECTION.about) {
    const unit = UNITS[section.number()];
    const [, host] = section.strings(4);
    section.skip(1);
    profile.about = { unit, host, startedUnix: section.number() };
  } else if (id === SECTION.strings) {
    for (const length of section.column(Float64Array, section.rows())) {
      profile.strings.push(section.text(length));
    }
  } else if (id === SECTION.processes) {
    const rows = section.rows();
    const pid = section.column(Uint32Array, rows);
    section.skip(rows);
    section.strings(rows).forEach((name, row) => profile.processes.push({ pid: pid[row], name }));
  } else if (id === SECTION.threads) {
    const rows = section.rows();
    const process = section.column(Int32Array, rows);
    const tid = section.column(Uint32Array, rows);
    const names = section.strings(rows);
    const role = section.column(Uint8Array, rows);
    names.forEach((name, row) =>
      profile.threads.push({ process: process[row], tid: tid[row], name, role: role[row] }));
  }
}

// One table of parts that each hold some of its rows.
function joined(parts, columns) {
  if (parts.length === 1) return parts[0];
  const table = {};
  for (const [key, Type] of columns.filter(([, Type]) => Type)) {
    table[key] = new Type(parts.reduce((sum, part) => sum + part[key].length, 0));
    let at = 0;
    for (const part of parts) {
      table[key].set(part[key], at);
      at += part[key].length;
    }
  }
  return table;
}
