// Written by `cargo run -p xtask -- viewer-tables` from Rust's tables, which are the place to edit.

// Kinds of code, by their code in a recording.
export enum Category {
  App = 0,
  Dependency = 1,
  NodeCore = 2,
  Builtin = 3,
  Wasm = 4,
  RegExp = 5,
  Gc = 6,
  Native = 7,
  Kernel = 8,
  Idle = 9,
  Unknown = 10,
  Internal = 11,
}
export const CATEGORY_LABELS: readonly string[] = [
  "app",
  "dependency",
  "node core",
  "V8 builtin",
  "wasm",
  "regexp",
  "GC",
  "native",
  "kernel",
  "idle",
  "unknown",
  "internal",
];

// V8's compilers, by their code in a recording.
export enum Tier {
  None = 0,
  Interpreted = 1,
  Baseline = 2,
  Maglev = 3,
  Optimized = 4,
}
export const TIER_LABELS: readonly string[] = [
  "",
  "interpreted",
  "baseline",
  "maglev",
  "optimized",
];

// What threads are for, by their code in a recording.
export enum ThreadRole {
  Main = 0,
  Worker = 1,
  Pool = 2,
  Platform = 3,
  Other = 4,
}
export const ROLE_LABELS: readonly string[] = [
  "main",
  "worker",
  "libuv pool",
  "V8 platform",
  "other",
];

// Parts of a running Node, by their letter in the page's preview.
export enum Subsystem {
  App = 0,
  Eval = 1,
  Dependencies = 2,
  NodeCore = 3,
  V8 = 4,
  Compilation = 5,
  Gc = 6,
  RegExp = 7,
  Wasm = 8,
  Addons = 9,
  Libraries = 10,
  Libc = 11,
  OtherNative = 12,
  Kernel = 13,
  Idle = 14,
  Unknown = 15,
}
export const SUBSYSTEM_KEYS: readonly string[] = [
  "app",
  "eval",
  "dependencies",
  "node_core",
  "v8_runtime",
  "jit_compilation",
  "gc",
  "regexp",
  "wasm",
  "addons",
  "libraries",
  "libc",
  "other_native",
  "kernel",
  "idle",
  "unknown",
];

// Kinds of owners of code.
export enum PackageKind {
  App = 0,
  Dependency = 1,
  Node = 2,
  V8 = 3,
  Native = 4,
  Kernel = 5,
  Other = 6,
}
export const PACKAGE_KIND_LABELS: readonly string[] = [
  "app",
  "dependency",
  "node",
  "v8",
  "native",
  "kernel",
  "other",
];

// The category of a box that stands for a whole package, by its kind.
export const PACKAGE_KIND_CATEGORIES: readonly Category[] = [
  Category.App,
  Category.Dependency,
  Category.NodeCore,
  Category.Builtin,
  Category.Native,
  Category.Kernel,
  Category.Unknown,
];

export type ShareKey = "javascript" | "native" | "kernel" | "gc" | "idle" | "unknown";
// What samples do, in the order it is shown; `category` lends its colour.
export const SHARE_PARTS: readonly { key: ShareKey; label: string; category: Category }[] = [
  { key: "javascript", label: "JS", category: Category.App },
  { key: "native", label: "native", category: Category.Native },
  { key: "kernel", label: "kernel", category: Category.Kernel },
  { key: "gc", label: "GC", category: Category.Gc },
  { key: "idle", label: "idle", category: Category.Idle },
  { key: "unknown", label: "unknown", category: Category.Unknown },
];
// What a sample does whose leaf is of this category.
export const SHARE_OF_CATEGORY: readonly ShareKey[] = [
  "javascript",
  "javascript",
  "javascript",
  "javascript",
  "javascript",
  "javascript",
  "gc",
  "native",
  "kernel",
  "idle",
  "unknown",
  "javascript",
];
