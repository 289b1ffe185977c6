import assert from "node:assert/strict";
import { test } from "node:test";
import { count, factor, percent, size, text, time } from "../../extension/src/numbers.ts";

test("times have three digits in the unit that suits", () => {
  const shown = [0, 0.000_000_1, 0.000_012, 0.0123, 0.9996, 1.2345, 12.345, 123.45, 2400].map((ms) => text(time(ms)));
  assert.deepEqual(shown, [
    "0 ms",
    "0 ms",
    "0.0120 µs",
    "12.3 µs",
    "1.00 ms",
    "1.23 ms",
    "12.3 ms",
    "123 ms",
    "2.40 s",
  ]);
});

test("sizes are in powers of two", () => {
  assert.deepEqual(
    [0, 12, 1023, 2048, 1.5 * 2 ** 20, 3 * 2 ** 30].map((bytes) => text(size(bytes))),
    ["0 B", "12 B", "1023 B", "2.00 KiB", "1.50 MiB", "3.00 GiB"],
  );
});

test("shares, counts and factors", () => {
  assert.deepEqual([0, 0.0001, 0.0123, 0.995].map(percent), ["0 %", "<0.1 %", "1.2 %", "100 %"]);
  assert.deepEqual([count(12_345), count(1, "run"), count(2, "run")], ["12,345", "1 run", "2 runs"]);
  assert.deepEqual([1.2409, 1.996, 2.409, 9.8, 9.96, 33].map(factor), ["1.24x", "2.00x", "2.4x", "9.8x", "10x", "33x"]);
});
