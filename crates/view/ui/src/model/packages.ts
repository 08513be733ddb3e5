// Whose code a function is; the same rules as `Package` in the model crate.

import { CATEGORY_KEYS, type FunctionColumns, type TextTable } from "./profile";

export interface Packages {
  packageOf: Int32Array; // by function
  packages: string[];
  packageCategory: number[]; // that of the first function seen
}

export function packagesOf(texts: TextTable, functions: FunctionColumns): Packages {
  const packages: string[] = [];
  const packageCategory: number[] = [];
  const known = new Map<string, number>();
  const rows = functions.name.length;
  const packageOf = new Int32Array(rows);
  const byFile = new Map<string, number>(); // most functions share their file and category
  for (let fn = 0; fn < rows; fn++) {
    const kind = CATEGORY_KEYS[functions.category[fn]] ?? "unknown";
    const isNative = kind === "native" || kind === "internal" || kind === "unknown";
    const key = `${kind} ${functions.file[fn]}`;
    let at = isNative ? undefined : byFile.get(key);
    if (at === undefined) {
      const file = functions.file[fn] < 0 ? "" : texts.get(functions.file[fn]);
      const name = packageName(kind, file, () => texts.get(functions.name[fn]));
      at = known.get(name);
      if (at === undefined) {
        at = packages.push(name) - 1;
        packageCategory.push(functions.category[fn]);
        known.set(name, at);
      }
      if (!isNative) byFile.set(key, at);
    }
    packageOf[fn] = at;
  }
  return { packageOf, packages, packageCategory };
}

function packageName(kind: string, file: string, name: () => string): string {
  switch (kind) {
    case "app":
    case "wasm":
      return "app";
    case "dependency":
      return packageIn(file) ?? "node_modules";
    case "core":
      return "node";
    case "builtin":
    case "regexp":
    case "gc":
      return "v8";
    case "kernel":
    case "idle":
      return kind;
    default:
      return libraryOf(name(), file) ?? (kind === "native" ? "native" : "unknown");
  }
}

function libraryOf(name: string, file: string): string | null {
  if (
    name.startsWith("v8::") ||
    name.startsWith("Builtins_") ||
    name.includes("v8::internal::") ||
    name.includes("cppgc::internal::")
  )
    return "v8";
  const module = file.slice(file.lastIndexOf("/") + 1);
  if (module === "node" || module === "nodejs" || (module === "" && name.startsWith("node::"))) return "node";
  return module || null;
}

// What follows the last `node_modules`, with its scope.
export function packageIn(file: string): string | null {
  const found = /.*node_modules[/\\]((?:@[^/\\]*[/\\])?[^/\\]+)/.exec(file);
  return found ? found[1] : null;
}
