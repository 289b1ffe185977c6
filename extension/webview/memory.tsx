/** Memory over one forward, and which lines hold it when most of it is held. */

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { NS_PER_MS, nanoseconds, size, text, time } from "../src/numbers.ts";
import type { CodeSpan, MemoryData, ReportData, TimelineData } from "../src/reportData.ts";
import { send } from "./host.ts";
import { amountColumn, type Column, countColumn, DataTable, Place, shareColumn } from "./table.tsx";
import { type Theme, useTheme } from "./theme.ts";

const HEIGHT = 220;

interface HeldRow {
  readonly span: CodeSpan | undefined;
  readonly bytes: number;
  readonly count: number;
}

/** `timeline` is undefined until it has come. */
interface Props {
  readonly report: ReportData;
  readonly timeline: TimelineData | null | undefined;
}

export function Memory({ report, timeline }: Props): JSX.Element {
  if (timeline === undefined) {
    return <p class="empty">Loading…</p>;
  }
  if (timeline?.memory == null) {
    return <p class="empty">This forward allocated nothing that torch's profiler saw.</p>;
  }
  return <Held key={timeline.run} report={report} timeline={timeline} memory={timeline.memory} />;
}

function Held({
  report,
  timeline,
  memory,
}: {
  report: ReportData;
  timeline: TimelineData;
  memory: MemoryData;
}): JSX.Element {
  const rows = useMemo(
    () => memory.held.map(({ span, bytes, count }) => ({ span: timeline.spans[span], bytes, count })),
    [timeline, memory],
  );
  const columns = useMemo(() => columnsFor(memory.peak_bytes), [memory]);
  const where = report.environment.device.startsWith("cpu") ? "host" : "device";
  return (
    <>
      <p class="verdict">
        <span class="run">
          <b>{text(size(memory.peak_bytes))}</b>
          <span class="quiet">
            of {where} memory at the peak, {text(nanoseconds(memory.peak_at))} into the forward, beyond what it began
            with
          </span>
        </span>
      </p>
      <Plot timeline={timeline} memory={memory} />
      <h2>Held at the peak</h2>
      <DataTable<HeldRow>
        name="held"
        label="Lines that hold memory at the peak"
        columns={columns}
        rows={rows}
        sort={{ id: "bytes", desc: true }}
        open={({ span }) => span && (() => send({ kind: "open", span }))}
      />
    </>
  );
}

function columnsFor(peak: number): readonly Column<HeldRow>[] {
  return [
    {
      id: "line",
      title: "Line",
      value: ({ span }) => (span === undefined ? null : `${span.file}:${span.line}`),
      cell: ({ span }) => (span === undefined ? <span class="quiet">outside your code</span> : <Place {...span} />),
    },
    {
      id: "code",
      title: "Expression",
      className: "code wide",
      value: ({ span }) => span?.code ?? null,
      cell: ({ span }) => <span title={span?.code}>{span?.code}</span>,
    },
    amountColumn({ id: "bytes", title: "Held" }, size, ({ bytes }) => bytes),
    shareColumn({ id: "share", title: "Share", hint: "Of the peak" }, ({ bytes }) => bytes / peak),
    countColumn({ id: "count", title: "Pieces" }, ({ count }) => count),
  ];
}

function Plot({ timeline, memory }: { timeline: TimelineData; memory: MemoryData }): JSX.Element {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [index, setIndex] = useState<number>();
  const theme = useTheme();

  useLayoutEffect(() => {
    const element = holder.current;
    if (element === null) {
      return undefined;
    }
    const data: uPlot.AlignedData = [memory.at.map((at) => at / NS_PER_MS), [...memory.bytes]];
    const chart = new uPlot(options(element.clientWidth, theme, setIndex), data, element);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [memory, theme]);

  useEffect(() => {
    const chart = plot.current;
    if (chart !== undefined && index !== undefined) {
      const [left, top] = [
        chart.valToPos(chart.data[0][index] ?? 0, "x"),
        chart.valToPos(chart.data[1]?.[index] ?? 0, "y"),
      ];
      if (Math.abs((chart.cursor.left ?? -10) - left) > 1) {
        chart.setCursor({ left, top }, false);
      }
    }
  }, [index]);

  const spanAt = (at: number | undefined) => (at === undefined ? undefined : timeline.spans[memory.span[at] ?? -1]);
  const go = () => {
    const span = spanAt(index);
    if (span !== undefined) {
      send({ kind: "open", span });
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const last = memory.at.length - 1;
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: index === undefined ? 0 : index + 1,
      ArrowLeft: (index ?? 0) - 1,
      Home: 0,
      End: last,
      p: memory.bytes.indexOf(memory.peak_bytes),
    };
    const target = targets[event.key];
    if (event.key === "Enter") {
      go();
    } else if (target !== undefined && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      setIndex(Math.max(0, Math.min(target, last)));
    }
  };

  const span = spanAt(index);
  return (
    <>
      <div
        class="plot"
        ref={holder}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is walked by keys, as its label says
        tabIndex={0}
        aria-label="Memory over time. Left and right move along it, p goes to the peak, Enter goes to the line."
        aria-describedby="point"
        onKeyDown={onKeyDown}
        onClick={go}
      />
      <div id="point" class="details" role="status">
        {index === undefined ? (
          <span class="quiet">
            <kbd>←→</kbd> move <kbd>p</kbd> peak <kbd>Enter</kbd> open line
          </span>
        ) : (
          <>
            <b>{text(size(memory.bytes[index] ?? 0))}</b>
            <span class="quiet">at {text(nanoseconds(memory.at[index] ?? 0))}</span>
            {span !== undefined && <Place {...span} />}
            {span !== undefined && <code>{span.code}</code>}
          </>
        )}
      </div>
    </>
  );
}

function options(width: number, theme: Theme, onIndex: (index: number) => void): uPlot.Options {
  const axis = { stroke: theme.color("quiet"), font: `11px ${theme.font}`, ticks: { show: false } };
  const grid = { stroke: theme.color("line"), width: 1 };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    padding: [10, 8, 0, 0],
    cursor: { drag: { x: true, y: false }, points: { size: 7, fill: theme.color("focus") } },
    scales: { x: { time: false }, y: { range: (_, low, high) => [Math.min(low, 0), high * 1.08 || 1] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, values) => values.map((value) => text(time(value))) },
      { ...axis, grid, size: 74, incrs: BYTE_STEPS, values: (_, values) => values.map((value) => text(size(value))) },
    ],
    series: [
      {},
      {
        stroke: theme.color("edge-compute"),
        fill: theme.contrast ? "transparent" : theme.color("fill-compute"),
        width: 1.5,
        points: { show: false },
        // What is held stays until the next event: a slope would be made up.
        ...(uPlot.paths.stepped && { paths: uPlot.paths.stepped({ align: 1 }) }),
      },
    ],
    hooks: {
      setCursor: [
        (chart) => {
          if (chart.cursor.idx != null) {
            onIndex(chart.cursor.idx);
          }
        },
      ],
    },
  };
}

/** Steps that are round in powers of two, from a byte to a tebibyte. */
const BYTE_STEPS = Array.from({ length: 41 }, (_, power) => 2 ** power);
