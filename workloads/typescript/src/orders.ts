export type Job = (seed: number) => number;

const rounds = 100000;

export function priceOrders(seed: number): number {
  let price = seed | 0;
  for (let order = 0; order < rounds; order++) {
    price = Math.imul(price ^ (price >>> 15), 0x2c1b3c6d) ^ order; // HOT
  }
  return price;
}
