/** One forward in order of time: zoomed and walked by mouse and keys, and every event leads to its line. */

import type { JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, nanoseconds, percent, text } from "../../src/numbers.ts";
import type { ReportData, TimelineData } from "../../src/reportData.ts";
import { send } from "../host.ts";
import { shapesText, shortName } from "../operatorRows.ts";
import { Place } from "../table.tsx";
import { useTheme } from "../theme.ts";
import { AXIS_HEIGHT, draw, lengthOf, place, ROW_HEIGHT } from "./draw.ts";
import { busyShare, type Direction, type Event, eventAt, gapBefore, neighbour, type Row, rowsOf } from "./layout.ts";
import { around, panned, showing, type Window, whole, zoomed } from "./window.ts";

const ZOOM_STEP = 0.7;
const PAN_STEP = 0.2;
/** Pixels beside an event that still hit it. */
const SLACK = 3;
const ARROWS: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

/** `timeline` is undefined until it has come. */
interface Props {
  readonly report: ReportData;
  readonly timeline: TimelineData | null | undefined;
}

export function Timeline({ report, timeline }: Props): JSX.Element {
  if (timeline === undefined) {
    return <p class="empty">Loading…</p>;
  }
  if (timeline === null || timeline.events.start.length === 0) {
    return <p class="empty">This run has no timeline. Profile again to get one.</p>;
  }
  return <Chart key={timeline.run} report={report} timeline={timeline} />;
}

function Chart({ report, timeline }: { report: ReportData; timeline: TimelineData }): JSX.Element {
  const rows = useMemo(() => rowsOf(timeline), [timeline]);
  const total = timeline.total_ns;
  const [window, setWindow] = useState(() => whole(total));
  const [selected, select] = useState<Event>();
  const [hovered, hover] = useState<Event>();

  const go = useCallback(
    (event: Event | undefined) => {
      if (event !== undefined) {
        select(event);
        setWindow((current) => showing(current, event.start, event.end, total));
      }
    },
    [total],
  );

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const act = keyAction(event, rows, window, total, selected, go, setWindow);
    if (act !== undefined) {
      event.preventDefault();
      act();
    }
  };

  const shown = hovered ?? selected;
  return (
    <div class="timeline">
      <Toolbar window={window} total={total} onWindow={setWindow} />
      <div
        class="chart"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it is walked by keys, as its label says
        tabIndex={0}
        aria-label="Timeline. Arrow keys move from event to event, Enter goes to the line, plus and minus zoom, Shift with left or right moves the view, 0 shows the whole forward."
        aria-describedby="event"
        onKeyDown={onKeyDown}
      >
        <Lanes rows={rows} total={total} />
        <Canvas
          rows={rows}
          total={total}
          window={window}
          selected={selected}
          hovered={hovered}
          onWindow={setWindow}
          onSelect={select}
          onHover={hover}
        />
      </div>
      <Details event={shown} rows={rows} />
      <Legend report={report} timeline={timeline} />
    </div>
  );
}

function keyAction(
  { key, shiftKey }: KeyboardEvent,
  rows: readonly Row[],
  window: Window,
  total: number,
  selected: Event | undefined,
  go: (event: Event | undefined) => void,
  setWindow: (window: Window) => void,
): (() => void) | undefined {
  const width = window.end - window.start;
  const center = selected === undefined ? (window.start + window.end) / 2 : (selected.start + selected.end) / 2;
  const at = Math.min(Math.max(center, window.start), window.end);
  const arrow = ARROWS[key];
  if (shiftKey && (arrow === "left" || arrow === "right")) {
    return () => setWindow(panned(window, (arrow === "right" ? 1 : -1) * PAN_STEP * width, total));
  }
  if (arrow !== undefined) {
    const first = rows[0]?.events[0];
    return () => go(selected === undefined ? first : neighbour(rows, selected, arrow));
  }
  const actions: Readonly<Record<string, (() => void) | undefined>> = {
    "+": () => setWindow(zoomed(window, ZOOM_STEP, at, total)),
    "=": () => setWindow(zoomed(window, ZOOM_STEP, at, total)),
    "-": () => setWindow(zoomed(window, 1 / ZOOM_STEP, at, total)),
    "0": () => setWindow(whole(total)),
    f: selected && (() => setWindow(around(selected.start, selected.end, total))),
    Enter: selected?.span && (() => open(selected)),
    Home: () => go(rows[selected?.row ?? 0]?.events[0]),
    End: () => go(rows[selected?.row ?? 0]?.events.at(-1)),
  };
  return actions[key];
}

function open({ span }: Event): void {
  if (span !== undefined) {
    send({ kind: "open", span });
  }
}

function Toolbar({
  window,
  total,
  onWindow,
}: {
  window: Window;
  total: number;
  onWindow: (window: Window) => void;
}): JSX.Element {
  const middle = (window.start + window.end) / 2;
  const all = window.end - window.start >= whole(total).end;
  return (
    <div class="tools">
      <button
        type="button"
        class="secondary"
        onClick={() => onWindow(zoomed(window, ZOOM_STEP, middle, total))}
        aria-label="Zoom in"
      >
        +
      </button>
      <button
        type="button"
        class="secondary"
        disabled={all}
        onClick={() => onWindow(zoomed(window, 1 / ZOOM_STEP, middle, total))}
        aria-label="Zoom out"
      >
        −
      </button>
      <button type="button" class="secondary" disabled={all} onClick={() => onWindow(whole(total))}>
        Whole forward
      </button>
      <span class="quiet" role="status">
        {text(nanoseconds(window.start))} to {text(nanoseconds(window.end))}
      </span>
      <span class="quiet keys">
        <kbd>←→↑↓</kbd> move <kbd>Enter</kbd> open line <kbd>+</kbd>
        <kbd>−</kbd> zoom <kbd>Shift</kbd>+<kbd>←→</kbd> pan <kbd>f</kbd> fit <kbd>0</kbd> all
      </span>
    </div>
  );
}

function Lanes({ rows, total }: { rows: readonly Row[]; total: number }): JSX.Element {
  const { tops, height } = place(rows);
  return (
    <div class="lanes" style={{ height: `${height}px` }}>
      {rows.map((row, number) =>
        row.isFirst ? (
          <div
            class="lane"
            key={number}
            style={{ top: `${tops[number]}px` }}
            title={`${row.lane.name}: busy ${percent(busyShare(row, total))} of the forward`}
          >
            {row.lane.name}
            {row.lane.kind !== "code" && <span class="quiet"> {percent(busyShare(row, total))}</span>}
          </div>
        ) : null,
      )}
    </div>
  );
}

interface CanvasProps {
  readonly rows: readonly Row[];
  readonly total: number;
  readonly window: Window;
  readonly selected: Event | undefined;
  readonly hovered: Event | undefined;
  readonly onWindow: (window: Window) => void;
  readonly onSelect: (event: Event | undefined) => void;
  readonly onHover: (event: Event | undefined) => void;
}

function Canvas(props: CanvasProps): JSX.Element {
  const { rows, total, window: view, selected, hovered, onWindow, onSelect, onHover } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const dragged = useRef<{ x: number; view: Window; moved: boolean } | undefined>(undefined);
  const width = useWidth(canvas);
  const theme = useTheme();
  const { tops, height } = useMemo(() => place(rows), [rows]);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) {
      return;
    }
    const ratio = globalThis.devicePixelRatio || 1;
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, { rows, tops, window: view, total, width, height, selected, hovered, theme });
  });

  const timeAt = (x: number) => view.start + (x / width) * (view.end - view.start);
  const hit = ({ offsetX, offsetY }: MouseEvent) => {
    const number = tops.findIndex((top) => offsetY >= top && offsetY < top + ROW_HEIGHT);
    const slack = (SLACK / width) * (view.end - view.start);
    return offsetY < AXIS_HEIGHT ? undefined : eventAt(rows[number], timeAt(offsetX), slack);
  };

  const onPointerMove = (event: PointerEvent) => {
    const drag = dragged.current;
    if (drag === undefined) {
      onHover(hit(event));
      return;
    }
    const by = ((drag.x - event.clientX) / width) * (drag.view.end - drag.view.start);
    drag.moved ||= Math.abs(drag.x - event.clientX) > SLACK;
    if (drag.moved) {
      onWindow(panned(drag.view, by, total));
    }
  };
  const onPointerUp = (event: PointerEvent) => {
    const wasDrag = dragged.current?.moved;
    dragged.current = undefined;
    if (wasDrag) {
      return;
    }
    const target = hit(event);
    onSelect(target);
    if (target !== undefined) {
      open(target);
    }
  };

  useEffect(() => {
    const element = canvas.current;
    // Preact's listeners are passive where the browser prefers it, and this one must keep the page from scrolling.
    const onWheel = (event: WheelEvent) => {
      const isZoom = event.ctrlKey || event.metaKey;
      const isPan = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (!isZoom && !isPan) {
        return;
      }
      event.preventDefault();
      const span = view.end - view.start;
      const by = event.deltaX || event.deltaY;
      onWindow(
        isZoom
          ? zoomed(view, Math.exp(event.deltaY * 0.002), timeAt(event.offsetX), total)
          : panned(view, (by / width) * span, total),
      );
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  });

  return (
    <canvas
      ref={canvas}
      class={hovered?.span === undefined ? "" : "leads"}
      style={{ height: `${height}px` }}
      onPointerDown={(event) => {
        dragged.current = { x: event.clientX, view, moved: false };
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={() => {
        dragged.current = undefined;
      }}
      onPointerLeave={() => onHover(undefined)}
    />
  );
}

function useWidth(element: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const target = element.current;
    if (target === null) {
      return undefined;
    }
    const observer = new ResizeObserver(() => setWidth(target.clientWidth));
    observer.observe(target);
    setWidth(target.clientWidth);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

/** What is under the mouse or selected, in words: also what a screen reader says when the selection moves. */
function Details({ event, rows }: { event: Event | undefined; rows: readonly Row[] }): JSX.Element {
  if (event === undefined) {
    return (
      <div id="event" class="details quiet" role="status">
        Nothing selected
      </div>
    );
  }
  const { lane, name, span, shapes } = event;
  const gap = gapBefore(rows, event);
  return (
    <div id="event" class="details" role="status">
      <b>{lane.kind === "code" ? (span?.code ?? name) : shortName(name)}</b>
      <span class="amount">{lengthOf(event)}</span>
      <span class="quiet">at {text(nanoseconds(event.start))}</span>
      {span !== undefined && <Place {...span} />}
      {lane.kind === "code" ? <span class="quiet">{name}</span> : <code>{span?.code}</code>}
      {shapes.length > 0 && <span class="quiet">{shapesText(shapes)}</span>}
      {gap > 0 && <span class="quiet">{text(nanoseconds(gap))} idle before</span>}
    </div>
  );
}

const KINDS = [
  ["code", "Lines"],
  ["compute", "Compute"],
  ["copy", "Copy and fill"],
  ["wait", "Wait"],
  ["other", "Other operators"],
] as const;

function Legend({ report, timeline }: { report: ReportData; timeline: TimelineData }): JSX.Element {
  const onDevice = timeline.lanes.some(({ kind }) => kind === "device");
  const inflated = timeline.profiled_ns / timeline.total_ns;
  return (
    <div class="note">
      <span class="legend" aria-hidden="true">
        {KINDS.map(([kind, name]) => (
          <span key={kind}>
            <i class={kind} />
            {name}
          </span>
        ))}
      </span>
      <p>
        One forward, on the clock of the untraced ones: an event is as long as it is when nobody is looking.
        {inflated > 1.05 && ` Under the profiler this one took ${inflated.toPrecision(2)} times as long.`}
        {onDevice && " Kernels keep the duration that was measured and start where their launch is on this clock."}
        {timeline.left_out > 0 &&
          ` The ${count(timeline.left_out)} shortest events are not drawn; they take ${text(nanoseconds(timeline.left_out_ns))} under the profiler.`}
      </p>
      {!onDevice && (
        <p>
          {report.environment.device.startsWith("cpu")
            ? 'CPU run: no device lane. Move the model and its inputs to a device, or set device = "cuda" for the entry, to see its kernels.'
            : `torch's profiler records no kernels on ${report.environment.device}.`}
        </p>
      )}
    </div>
  );
}
