import assert from "node:assert/strict";
import { test } from "node:test";
import type { TimelineData } from "../../extension/src/reportData.ts";
import {
  busyShare,
  eventAt,
  gapBefore,
  kindOf,
  neighbour,
  type Row,
  rowsOf,
} from "../../extension/webview/timeline/layout.ts";
import { around, panned, showing, whole, zoomed } from "../../extension/webview/timeline/window.ts";

const SPAN = { file: "model.py", line: 3, column: 4, end_line: 3, end_column: 9, code: "x + y" };

/** A line from 0 to 100 with two operators, one of which runs another, and a kernel. */
const DATA: TimelineData = {
  run: 1,
  total_ns: 1000,
  profiled_ns: 2000,
  left_out: 0,
  left_out_ns: 0,
  lanes: [
    { kind: "code", name: "Code" },
    { kind: "host", name: "Host" },
    { kind: "device", name: "GPU 0, stream 7" },
  ],
  events: {
    lane: [0, 1, 1, 1, 2],
    depth: [0, 0, 1, 0, 0],
    start: [0, 10, 15, 60, 500],
    duration: [100, 40, 20, 30, 100],
    name: [0, 1, 2, 1, 3],
    span: [0, 0, 0, 0, -1],
    shapes: [-1, 0, -1, -1, -1],
  },
  memory: null,
  names: ["Net.forward", "aten::add", "aten::empty", "gemm_kernel"],
  spans: [SPAN],
  shapes: [[[2, 3], []]],
};

const ROWS = rowsOf(DATA);

function event(row: number, position: number) {
  const found = ROWS[row]?.events[position];
  assert.ok(found);
  return found;
}

test("each depth of each lane is a row", () => {
  assert.deepEqual(
    ROWS.map(({ lane, isFirst, events }) => [lane.name, isFirst, events.map(({ name }) => name)]),
    [
      ["Code", true, ["Net.forward"]],
      ["Host", true, ["aten::add", "aten::add"]],
      ["Host", false, ["aten::empty"]],
      ["GPU 0, stream 7", true, ["gemm_kernel"]],
    ],
  );
  assert.deepEqual(event(1, 0).shapes, [[2, 3], []]);
  assert.equal(event(3, 0).span, undefined);
});

test("the mouse hits what is under it, and the thinnest within reach", () => {
  const [, host] = ROWS;
  assert.equal(eventAt(host, 20, 0), event(1, 0));
  assert.equal(eventAt(host, 55, 0), undefined);
  assert.equal(eventAt(host, 53, 3), event(1, 0));
  assert.equal(eventAt(host, 58, 3), event(1, 1));
  assert.equal(eventAt(undefined, 58, 3), undefined);
});

test("arrow keys walk along a row and between rows", () => {
  assert.equal(neighbour(ROWS, event(1, 0), "right"), event(1, 1));
  assert.equal(neighbour(ROWS, event(1, 0), "left"), undefined);
  assert.equal(neighbour(ROWS, event(0, 0), "down"), event(1, 0));
  assert.equal(neighbour(ROWS, event(2, 0), "down"), event(3, 0));
  assert.equal(neighbour(ROWS, event(3, 0), "up"), event(2, 0));
  assert.equal(neighbour(ROWS, event(0, 0), "up"), undefined);
});

test("gaps and how busy a lane is", () => {
  assert.equal(gapBefore(ROWS, event(1, 1)), 10);
  assert.equal(gapBefore(ROWS, event(3, 0)), 500);
  assert.equal(busyShare(ROWS[3] as Row, DATA.total_ns), 0.1);
});

test("the colour says what an event does", () => {
  const host = { kind: "host", name: "Host" } as const;
  const kinds = ["aten::addmm", "aten::copy_", "aten::_local_scalar_dense", "aten::relu", "aten::embedding"];
  assert.deepEqual(
    kinds.map((name) => kindOf({ lane: host, name })),
    ["compute", "copy", "wait", "other", "compute"],
  );
  assert.equal(kindOf(event(0, 0)), "code");
});

test("zooming keeps the place under the mouse and stays inside the forward", () => {
  const total = 100_000;
  assert.deepEqual(zoomed(whole(total), 0.5, 50_000, total), { start: 25_000, end: 75_000 });
  assert.deepEqual(zoomed({ start: 0, end: 1000 }, 0.5, 250, total), { start: 125, end: 625 });
  assert.deepEqual(zoomed({ start: 0, end: 60_000 }, 4, 0, total), whole(total));
  const narrowest = zoomed({ start: 0, end: 300 }, 0.01, 100, total);
  assert.equal(Math.round(narrowest.end - narrowest.start), 200);
});

test("panning stops at both ends", () => {
  assert.deepEqual(panned({ start: 10, end: 510 }, -100, 1000), { start: 0, end: 500 });
  assert.deepEqual(panned({ start: 400, end: 900 }, 300, 1000), { start: 500, end: 1000 });
});

test("what is chosen comes into view", () => {
  const view = { start: 1000, end: 2000 };
  assert.equal(showing(view, 1200, 1300, 10_000), view);
  const moved = showing(view, 5000, 5100, 10_000);
  assert.ok(moved.start <= 5000 && moved.end >= 5100 && moved.end - moved.start === 1000);
  const widened = showing(view, 3000, 6000, 10_000);
  assert.ok(widened.start <= 3000 && widened.end >= 6000);
  assert.deepEqual(around(0, 1000, 10_000), { start: 0, end: 1200 });
});

test("a forward without a length can be shown", () => {
  assert.deepEqual(zoomed(whole(0), 0.5, 0, 0), whole(0));
});
