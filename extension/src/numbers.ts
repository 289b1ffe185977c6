/** Numbers as the server writes them beside the code: three digits in the unit that suits. */

const TIMES: readonly (readonly [string, number])[] = [
  ["s", 1000],
  ["ms", 1],
  ["µs", 0.001],
];
const SIZES: readonly (readonly [string, number])[] = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
  ["B", 1],
];
/** Below it a time is beyond any clock. */
const NOTHING_MS = 5e-7;

/** A number and its unit apart, for columns whose digits stand below each other. */
export interface Quantity {
  readonly number: string;
  readonly unit: string;
}

export function time(milliseconds: number): Quantity {
  return Math.abs(milliseconds) < NOTHING_MS ? { number: "0", unit: "ms" } : inUnits(milliseconds, TIMES);
}

export function size(bytes: number): Quantity {
  return bytes === 0 ? { number: "0", unit: "B" } : inUnits(bytes, SIZES);
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

/** `2.41x`. */
export function factor(ratio: number): string {
  return `${digits(ratio)}x`;
}

function inUnits(value: number, units: readonly (readonly [string, number])[]): Quantity {
  const smallest = units[units.length - 1] ?? ["", 1];
  const [unit, size] = units.find(([, size]) => Math.abs(value) / size >= 0.9995) ?? smallest;
  return { number: digits(value / size), unit };
}

/** Three significant digits without an exponent, and no more than the value has: `0.0123`, `1.23`, `123`, `1230`. */
function digits(value: number): string {
  const text = value.toPrecision(3);
  return text.includes("e") ? String(Number(text)) : text;
}
