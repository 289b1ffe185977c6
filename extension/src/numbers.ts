/** Numbers as the server writes them beside the code: three digits in the unit that suits. */

const SHORTEST = ["µs", 0.001] as const;
const TIMES: readonly (readonly [string, number])[] = [["s", 1000], ["ms", 1], SHORTEST];
const SIZES: readonly (readonly [string, number])[] = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
];
/** Timelines are in nanoseconds, everything else is in milliseconds. */
export const NS_PER_MS = 1e6;
/** Below it a time is beyond any clock. */
const NOTHING_MS = 5e-7;

/** A number and its unit apart, for columns whose digits stand below each other. */
export interface Quantity {
  readonly number: string;
  readonly unit: string;
}

export function time(milliseconds: number): Quantity {
  const length = Math.abs(milliseconds);
  if (length < NOTHING_MS) {
    return { number: "0", unit: "ms" };
  }
  // What rounds to 1.00 is written in the larger unit.
  const [unit, size] = TIMES.find(([, size]) => length / size >= 0.9995) ?? SHORTEST;
  return { number: digits(milliseconds / size), unit };
}

export function nanoseconds(ns: number): Quantity {
  return time(ns / NS_PER_MS);
}

/** Bytes come whole, so they are written whole. */
export function size(bytes: number): Quantity {
  const found = SIZES.find(([, size]) => Math.abs(bytes) >= size);
  if (found === undefined) {
    return { number: bytes.toFixed(0), unit: "B" };
  }
  const [unit, size] = found;
  return { number: digits(bytes / size), unit };
}

export function text({ number, unit }: Quantity): string {
  return `${number} ${unit}`;
}

export function percent(share: number): string {
  if (share < 0.0005) {
    return share <= 0 ? "0 %" : "<0.1 %";
  }
  return share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(1)} %`;
}

export function count(number: number, one?: string): string {
  const digits = number.toLocaleString("en-US");
  return one === undefined ? digits : `${digits} ${one}${number === 1 ? "" : "s"}`;
}

/** How many times faster: `1.24x`, `9.8x`, `33x`. Near 1, where it matters, with one digit more. */
export function factor(ratio: number): string {
  return `${ratio.toFixed(ratio < 2 ? 2 : ratio < 9.95 ? 1 : 0)}x`;
}

/** Three significant digits without an exponent, and no more than the value has: `0.0123`, `1.23`, `123`, `1230`. */
function digits(value: number): string {
  const text = value.toPrecision(3);
  return text.includes("e") ? String(Number(text)) : text;
}
