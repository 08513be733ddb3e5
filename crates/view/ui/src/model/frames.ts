// Kinds of frames, by their code in a recording; 0 is one that was called.
export const ASYNC = 2; // suspended: it awaits what is above it
export const KIND_LABELS = ["", "inlined", "awaits what is above it"];
export const KIND_SIGNS = ["", "‹", "await "];
