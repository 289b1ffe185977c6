import assert from "node:assert/strict";
import { test } from "node:test";
import { hasModule } from "../../extension/src/notebookText.ts";

test("a cell with a module is recognised", () => {
  for (const code of [
    "class Net(nn.Module):\n  pass",
    "import torch\n\nclass Net(torch.nn.Module, Mixin):",
    "class N(Module):",
  ]) {
    assert.ok(hasModule(code), code);
  }
  for (const code of ["x = 1", "# class Net(nn.Module):", "class Net(Base):", "class ModuleList:"]) {
    assert.ok(!hasModule(code), code);
  }
});
