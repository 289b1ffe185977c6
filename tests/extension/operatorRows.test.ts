import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportLine } from "../../extension/src/reportData.ts";
import { operatorRows, operatorTotals, shapesText, shortName } from "../../extension/webview/operatorRows.ts";

function line(number: number, self: number): ReportLine {
  const op = { name: "aten::mul", calls: 2, self_ms: self, total_ms: 2 * self, device_ms: 0, shapes: [[number]] };
  return {
    file: "model.py",
    line: number,
    column: 0,
    end_line: number,
    end_column: 5,
    function: "forward",
    calls: 1,
    self_ms: self,
    total_ms: self,
    share: 0.1,
    device_ms: 0,
    ops: [op],
  };
}

test("every operator of every expression is a row", () => {
  assert.deepEqual(
    operatorRows([line(3, 1), line(4, 5)]).map(({ name, span }) => [name, span.line]),
    [
      ["aten::mul", 3],
      ["aten::mul", 4],
    ],
  );
});

test("added up, an operator stands for its costliest place", () => {
  const [total, ...others] = operatorTotals([line(3, 1), line(4, 5)]);
  assert.ok(total);
  assert.deepEqual(others, []);
  assert.deepEqual([total.calls, total.self_ms, total.total_ms], [4, 6, 12]);
  assert.deepEqual([total.span.line, total.shapes], [4, [[4]]]);
});

test("names and shapes as people write them", () => {
  const names = [
    "aten::layer_norm",
    "MulBackward0 (backward)",
    "Memcpy DtoH (Device -> Pageable)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float const*)",
    "void gemm_kernel<(bool)0, 4>(Params)",
    "gather(int, float*)",
  ];
  assert.deepEqual(names.map(shortName), [
    "layer_norm",
    "MulBackward0 (backward)",
    "Memcpy DtoH (Device -> Pageable)",
    "at::native::vectorized_layer_norm_kernel",
    "gemm_kernel",
    "gather",
  ]);
  assert.equal(shapesText([[8, 128], [], [3]]), "8×128, (), 3");
});
