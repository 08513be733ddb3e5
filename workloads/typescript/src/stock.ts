import type { Job } from "./orders";

const rounds = 100000;

// An arrow function has its name from the constant: the map tells that, too.
export const countStock: Job = (seed) => {
  let count = seed | 0;
  for (let item = 0; item < rounds; item++) {
    count = Math.imul(count ^ (count >>> 15), 0x2c1b3c6d) ^ item; // HOT
  }
  return count;
};
