// Row numbers that know their table, so that a function's number cannot be taken for a node's. They
// are plain numbers when the page runs; only the compiler tells them apart.

import type { NumberArray } from "./columns";

declare const table: unique symbol;
type Index<Table extends string> = number & { readonly [table]: Table };

export type TextIndex = Index<"text">;
export type FunctionIndex = Index<"function">; // from `functionCount` on: a package as one box
export type FrameIndex = Index<"frame">;
export type StackIndex = Index<"stack">;
export type ThreadIndex = Index<"thread">;
export type EventIndex = Index<"event">;
export type PackageIndex = Index<"package">;
export type PathIndex = Index<"path">; // a node of a shape, which has no weights
export type NodeIndex = Index<"node">; // a node of a tree, in preorder

// A typed array that is read and written by one table's rows and holds another's, or plain numbers.
export type Column<
  Row extends number,
  Value extends number = number,
  From extends NumberArray = Int32Array,
> = Omit<From, number | "slice" | "subarray"> & {
  [row in Row]: Value;
} & {
  slice(from?: number, to?: number): Column<Row, Value, From>;
  subarray(from?: number, to?: number): Column<Row, Value, From>;
};

// A list by one table's rows.
export type Rows<Row extends number, Value> = Omit<readonly Value[], number> & {
  readonly [row in Row]: Value;
};

// Gives a typed array the type of a column, and takes it away. The bundler leaves out both calls.
export function column<C>(array: NumberArray): C {
  return array as unknown as C;
}

export function plain<A extends NumberArray = Int32Array>(of: unknown): A {
  return of as A;
}

// No row at all.
export const NO_TEXT = -1 as TextIndex;
export const NO_FUNCTION = -1 as FunctionIndex;
export const NO_THREAD = -1 as ThreadIndex;
export const NO_NODE = -1 as NodeIndex;
