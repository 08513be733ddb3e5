// Whose code a function is. The rules are those of `Package` in the model crate; the vectors that it
// writes for the tests keep them so.

import { type Column, column, type FunctionIndex, type PackageIndex, type Rows } from "./indexes";
import type { FunctionColumns, TextTable } from "./profile";
import { Category, PACKAGE_KIND_CATEGORIES, PACKAGE_KIND_LABELS, PackageKind } from "./tables";

export interface Packages {
  packageOf: Column<FunctionIndex, PackageIndex>;
  packages: Rows<PackageIndex, string>;
  packageCategory: Rows<PackageIndex, number>;
}

export interface Package {
  kind: PackageKind;
  name: string;
}

export function packagesOf(texts: TextTable, functions: FunctionColumns): Packages {
  const packages: string[] = [];
  const packageCategory: number[] = [];
  const known = new Map<string, PackageIndex>();
  const rows = functions.name.length;
  const packageOf = column<Packages["packageOf"]>(new Int32Array(rows));
  const byFile = new Map<string, PackageIndex>(); // most functions share their file and category
  for (let fn = 0 as FunctionIndex; fn < rows; fn++) {
    const category = functions.category[fn];
    const key = `${category} ${functions.file[fn]}`;
    let at = isNamed(category) ? undefined : byFile.get(key);
    if (at === undefined) {
      const file = functions.file[fn] < 0 ? "" : texts.get(functions.file[fn]);
      const { kind, name } = packageFor(category, file, () => texts.get(functions.name[fn]));
      const owner = `${kind} ${name}`;
      at = known.get(owner);
      if (at === undefined) {
        at = (packages.push(name) - 1) as PackageIndex;
        packageCategory.push(PACKAGE_KIND_CATEGORIES[kind]);
        known.set(owner, at);
      }
      if (!isNamed(category)) byFile.set(key, at);
    }
    packageOf[fn] = at;
  }
  return { packageOf, packages, packageCategory };
}

// Whether the function's name has a say, and not only its file.
const isNamed = (category: number): boolean =>
  category === Category.Native || category === Category.Internal || category === Category.Unknown;

const plain = (kind: PackageKind): Package => ({ kind, name: PACKAGE_KIND_LABELS[kind] });

export function packageFor(category: number, file: string, name: () => string): Package {
  switch (category) {
    case Category.App:
    case Category.Wasm:
      return plain(PackageKind.App);
    case Category.Dependency:
      return { kind: PackageKind.Dependency, name: packageIn(file) ?? "node_modules" };
    case Category.NodeCore:
      return plain(PackageKind.Node);
    case Category.Builtin:
    case Category.RegExp:
    case Category.Gc:
      return plain(PackageKind.V8);
    case Category.Kernel:
      return plain(PackageKind.Kernel);
    case Category.Idle:
      return { kind: PackageKind.Other, name: "idle" };
    default:
      return libraryOf(name(), file) ?? (category === Category.Native ? plain(PackageKind.Native) : NO_OWNER);
  }
}

const NO_OWNER: Package = { kind: PackageKind.Other, name: "unknown" };
const V8_NAME = /^v8::|^Builtins_|v8::internal::|cppgc::internal::/;

function libraryOf(name: string, file: string): Package | null {
  if (V8_NAME.test(name)) return plain(PackageKind.V8);
  const module = file.slice(file.lastIndexOf("/") + 1);
  const isNode = module === "node" || module === "nodejs" || (module === "" && name.startsWith("node::"));
  if (isNode) return plain(PackageKind.Node);
  return module === "" ? null : { kind: PackageKind.Native, name: module };
}

const FOLDER = "node_modules";

// What follows the last `node_modules`, with its scope.
function packageIn(file: string): string | null {
  let at = file.lastIndexOf(`${FOLDER}/`);
  if (at < 0) at = file.lastIndexOf(`${FOLDER}\\`);
  if (at < 0) return null;
  const found = /^(@[^/\\]*[/\\]?)?[^/\\]*/.exec(file.slice(at + FOLDER.length + 1));
  return found?.[0].replace(/[/\\]$/, "") || null;
}
