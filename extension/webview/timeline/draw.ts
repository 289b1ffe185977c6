/** Drawing the rows of a timeline. Knows nothing of keys, clicks or messages. */

import { ticks } from "d3-array";
import { NS_PER_MS, nanoseconds, text } from "../../src/numbers.ts";
import { shortName } from "../operatorRows.ts";
import type { Theme } from "../theme.ts";
import { type Event, firstAfter, kindOf, type Row } from "./layout.ts";
import type { Window } from "./window.ts";

export const AXIS_HEIGHT = 22;
export const ROW_HEIGHT = 18;
const LANE_GAP = 10;
/** Pixels of a text that is worth reading, and of the space before it. */
const SHORTEST_TEXT = 22;
const PADDING = 4;
/** Of an event that fills almost nothing of its pixel; less could not be seen at all. */
const FAINTEST = 0.12;

export interface Scene {
  readonly rows: readonly Row[];
  readonly tops: readonly number[];
  readonly window: Window;
  readonly total: number;
  readonly width: number;
  readonly height: number;
  readonly selected: Event | undefined;
  readonly hovered: Event | undefined;
  readonly theme: Theme;
}

/** Where each row begins, and how high all of them are together. */
export function place(rows: readonly Row[]): { tops: number[]; height: number } {
  const tops: number[] = [];
  let top = AXIS_HEIGHT;
  for (const { isFirst } of rows) {
    top += isFirst && tops.length > 0 ? LANE_GAP : 0;
    tops.push(top);
    top += ROW_HEIGHT;
  }
  return { tops, height: top + PADDING };
}

export function draw(context: CanvasRenderingContext2D, scene: Scene): void {
  const { rows, tops, width, height, theme } = scene;
  context.clearRect(0, 0, width, height);
  context.font = `11px ${theme.font}`;
  context.textBaseline = "middle";
  drawAxis(context, scene);
  for (const [number, row] of rows.entries()) {
    drawRow(context, scene, row, tops[number] ?? 0);
  }
  for (const event of [scene.hovered, scene.selected]) {
    if (event !== undefined) {
      drawOutline(context, scene, event, event === scene.selected);
    }
  }
}

function xOf(time: number, { start, end }: Window, width: number): number {
  return ((time - start) / (end - start)) * width;
}

function drawAxis(context: CanvasRenderingContext2D, { window, width, height, theme }: Scene): void {
  context.fillStyle = theme.color("quiet");
  context.strokeStyle = theme.color("line");
  context.lineWidth = 1;
  const times = ticks(window.start / NS_PER_MS, window.end / NS_PER_MS, Math.max(2, width / 110));
  for (const at of times) {
    const x = Math.round(xOf(at * NS_PER_MS, window, width)) + 0.5;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, height);
    context.stroke();
    context.fillText(label(at, times), x + PADDING, AXIS_HEIGHT / 2);
  }
}

/** In one unit for the whole axis, with as many digits as tell the ticks apart. */
function label(at: number, times: readonly number[]): string {
  const step = (times[1] ?? 1) - (times[0] ?? 0);
  const largest = times[times.length - 1] ?? 1;
  const [unit, size] = largest >= 1000 ? ["s", 1000] : largest >= 1 ? ["ms", 1] : ["µs", 0.001];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return `${(at / size).toFixed(Math.min(digits, 6))} ${unit}`;
}

function drawRow(context: CanvasRenderingContext2D, scene: Scene, { lane, events, isFirst }: Row, top: number): void {
  const { window, width, theme } = scene;
  if (lane.kind === "device" || isFirst) {
    // The track makes a gap something to see.
    context.fillStyle = theme.color("track");
    context.fillRect(0, top, width, ROW_HEIGHT - 1);
  }
  const thin = new Thin(context, theme, top);
  for (let position = firstAfter(events, window.start); position < events.length; position += 1) {
    const event = events[position];
    if (event === undefined || event.start > window.end) {
      break;
    }
    const left = Math.max(xOf(event.start, window, width), -1);
    const right = Math.min(xOf(event.end, window, width), width + 1);
    if (right - left < 1) {
      thin.add(event, left, right - left);
    } else {
      drawEvent(context, theme, event, left, top, right - left - (right - left > 3 ? 1 : 0));
    }
  }
  thin.flush();
}

/**
 * Events narrower than a pixel share one, which is as strong as they fill it: a lane that is idle most of the time has
 * to look like it, however many events there are.
 */
class Thin {
  readonly #context: CanvasRenderingContext2D;
  readonly #theme: Theme;
  readonly #top: number;
  #pixel = Number.NaN;
  #covered = 0;
  #widest: { readonly event: Event; readonly width: number } | undefined;

  constructor(context: CanvasRenderingContext2D, theme: Theme, top: number) {
    this.#context = context;
    this.#theme = theme;
    this.#top = top;
  }

  add(event: Event, left: number, width: number): void {
    const pixel = Math.floor(left);
    if (pixel !== this.#pixel) {
      this.flush();
      this.#pixel = pixel;
    }
    this.#covered += width;
    if (this.#widest === undefined || width > this.#widest.width) {
      this.#widest = { event, width };
    }
  }

  flush(): void {
    if (this.#widest !== undefined) {
      this.#context.globalAlpha = Math.max(FAINTEST, Math.min(1, this.#covered));
      const kind = kindOf(this.#widest.event);
      const strong = kind !== "code" || this.#theme.contrast;
      this.#context.fillStyle = this.#theme.color(strong ? `edge-${kind}` : "fill-code");
      this.#context.fillRect(this.#pixel, this.#top, 1, ROW_HEIGHT - 1);
      this.#context.globalAlpha = 1;
    }
    this.#covered = 0;
    this.#widest = undefined;
  }
}

function drawEvent(
  context: CanvasRenderingContext2D,
  theme: Theme,
  event: Event,
  left: number,
  top: number,
  width: number,
): void {
  const kind = kindOf(event);
  context.fillStyle = theme.color(`fill-${kind}`);
  context.fillRect(left, top, width, ROW_HEIGHT - 1);
  if (theme.contrast && width > 3) {
    context.strokeStyle = theme.color(`edge-${kind}`);
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, top + 0.5, width - 1, ROW_HEIGHT - 2);
  }
  if (width < SHORTEST_TEXT) {
    return;
  }
  const visible = fitting(context, captionOf(event), width - 2 * PADDING);
  context.fillStyle = theme.color("text");
  context.fillText(visible, Math.max(left, 0) + PADDING, top + ROW_HEIGHT / 2);
}

function captionOf({ lane, name, span }: Event): string {
  return lane.kind === "code" && span !== undefined ? `${span.line}  ${span.code}` : shortName(name);
}

/** As many characters as there is room for. A canvas measures text slowly, so their average width has to do. */
function fitting(context: CanvasRenderingContext2D, caption: string, room: number): string {
  const average = averageWidth(context);
  const most = Math.floor(room / average);
  return caption.length <= most ? caption : most < 3 ? "" : `${caption.slice(0, most - 1)}…`;
}

const widths = new Map<string, number>();

function averageWidth(context: CanvasRenderingContext2D): number {
  const known = widths.get(context.font) ?? context.measureText("self.output(x)[0] = embed").width / 25;
  widths.set(context.font, known);
  return known;
}

function drawOutline(context: CanvasRenderingContext2D, scene: Scene, event: Event, strong: boolean): void {
  const { window, width, tops, theme } = scene;
  const left = Math.max(xOf(event.start, window, width), 0);
  const right = Math.min(xOf(event.end, window, width), width);
  if (right < 0 || left > width) {
    return;
  }
  context.strokeStyle = theme.color(strong ? "focus" : "text");
  context.lineWidth = strong ? 2 : 1;
  context.strokeRect(left, (tops[event.row] ?? 0) - 0.5, Math.max(right - left, 2), ROW_HEIGHT);
}

export function lengthOf(event: Event): string {
  return text(nanoseconds(event.end - event.start));
}
