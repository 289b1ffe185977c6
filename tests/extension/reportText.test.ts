import assert from "node:assert/strict";
import { test } from "node:test";
import { type ReportData, reportText } from "../../extension/src/reportText.ts";

const LINE = { file: "model.py", line: 31, function: "forward", calls: 128, self_ms: 4.7, share: 0.7123, ops: [] };

const DATA: ReportData = {
  entry: "model.py:build",
  target: "Encoder",
  environment: { python: "3.11.7", torch: "2.13.0", device: "cpu" },
  forward: { wall_ms: { median: 6.6, p10: 6.5, p90: 7.123, n: 30 }, bound: "dispatch" },
  unattributed_share: 0.031,
  lines: [{ ...LINE, line: 40, share: 0.02, self_ms: 0.132, calls: 1 }, LINE, { ...LINE, line: 50, share: 0.001 }],
  findings: [],
  errors: [],
  stale: false,
  places: [41, 30, 49],
  files: { "model.py": "file:///ws/model.py" },
};

function report(change: Partial<ReportData> = {}) {
  return reportText({ ...DATA, ...change });
}

/** What each link covers, and where it leads. */
function links({ text, links }: ReturnType<typeof reportText>) {
  const rows = text.split("\n");
  return links.map(({ row, start, end, target }) => [rows[row]?.slice(start, end), target]);
}

test("the forward's time and how it was run", () => {
  const { text } = report();
  assert.match(text, /^Encoder: 6\.60 ms\n/);
  assert.match(text, /^6\.50 ms to 7\.12 ms \(10th to 90th percentile of 30 runs\), bound by dispatch: the time goes/m);
  assert.match(text, /^model\.py:build with torch 2\.13\.0 and Python 3\.11\.7 on cpu$/m);
});

test("the costliest lines come first, and tiny ones are left out", () => {
  const [, table] = report().text.split("Costs\n");
  assert.equal(
    table,
    [
      "    share       time   calls  where and what",
      "     71 %    4.70 ms     128  model.py:31",
      "    2.0 %     132 µs       1  model.py:40",
      "    3.1 %                     belongs to no line",
      "",
    ].join("\n"),
  );
});

test("links lead to where the lines are now", () => {
  assert.deepEqual(links(report()), [
    ["model.py:31", "file:///ws/model.py#L31"],
    ["model.py:40", "file:///ws/model.py#L42"],
  ]);
});

test("a line that was edited is named without a link", () => {
  const stale = report({ places: [null, null, null], stale: true });
  assert.match(stale.text, /edited since/);
  assert.match(stale.text, /model\.py:31/);
  assert.deepEqual(links(stale), []);
});

test("operators are those that cost most", () => {
  const ops = [0.1, 3, 2, 1].map((self_ms, index) => ({ name: `aten::op${index}`, self_ms }));
  assert.match(report({ lines: [{ ...LINE, ops }], places: [30] }).text, /model\.py:31 {2}op1, op2, op3$/m);
});

test("the expressions of a line are one row", () => {
  const op = (name: string, self_ms: number) => ({ name: `aten::${name}`, self_ms });
  const add = { ...LINE, calls: 1, self_ms: 1, share: 0.15, ops: [op("add", 0.6)] };
  const lines = [{ ...LINE, ops: [op("embedding", 1), op("add", 0.5)] }, { ...add, line: 32 }, add];
  const text = report({ lines, places: [30, 31, 30] }).text;
  assert.match(text, /^ +86 % +5\.70 ms +128 {2}model\.py:31 {2}add, embedding\n +15 % +1\.00 ms +1 {2}model\.py:32/m);
  assert.equal(text.match(/model\.py:31/g)?.length, 1);
});

test("small expressions that make a costly line together are shown", () => {
  const lines = [LINE, LINE].map((line) => ({ ...line, line: 60, share: 0.003, self_ms: 0.02 }));
  assert.match(report({ lines, places: [59, 59] }).text, /0\.6 % +40\.0 µs +128 {2}model\.py:60$/m);
});

test("long sentences are wrapped at their spaces", () => {
  const message = `${"a word ".repeat(30)}${"x".repeat(120)} and more`;
  const rows = report({ errors: [{ message }] }).text.split("\n");
  const told = rows.slice(rows.indexOf("Problems") + 1, -1);
  assert.deepEqual(told.join(" ").trim().split(/\s+/), message.split(/\s+/));
  assert.ok(told.every((row) => row.startsWith("  ") && (row.length <= 100 || row.trim() === "x".repeat(120))));
});

test("findings tell what trying their fixes showed", () => {
  const fix = { title: "Look up all tokens at once", reason: null, verified: null };
  const fixes = [
    fix,
    { ...fix, verified: { outcome: "equal", speedup: 3.125 } },
    { ...fix, verified: { outcome: "no-gain", speedup: 1.01 } },
    { ...fix, reason: "changes\n  rounding" },
  ];
  const finding = {
    file: "model.py",
    line: 31,
    rule: "embedding-in-loop",
    message: "`self.word` ran",
    share: 0.7,
    fixes,
  };
  const found = report({ findings: [finding] });
  assert.match(
    found.text,
    /Findings\n {2}model\.py:31 {2}embedding-in-loop\n {4}`self\.word` ran\n {4}Fix: Look up all tokens at once\n/,
  );
  assert.match(found.text, /Fix: Look up all tokens at once \(tried: outputs equal, 3\.13x faster\)\n/);
  assert.match(found.text, /Fix: Look up all tokens at once \(tried: outputs equal, no gain measured\)\n/);
  assert.match(found.text, /Fix: Look up all tokens at once \(check first: changes rounding\)\n/);
  assert.deepEqual(links(found)[0], ["model.py:31", "file:///ws/model.py#L31"]);
});

test("nothing found, nothing measured", () => {
  const { text } = report({ lines: [], places: [], errors: [{ message: "operators differ\nbetween runs" }] });
  assert.match(text, /^No findings$/m);
  assert.match(text, /^ {2}operators differ between runs$/m);
});
