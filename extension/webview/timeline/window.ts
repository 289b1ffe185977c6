/** The part of the forward that is on the screen, in nanoseconds. */

export interface Window {
  readonly start: number;
  readonly end: number;
}

/** Narrower than any event. */
const NARROWEST_NS = 200;

export function whole(total: number): Window {
  return { start: 0, end: Math.max(total, NARROWEST_NS) };
}

/** `factor` times as much of the forward, with `at` staying where it is on the screen. */
export function zoomed({ start, end }: Window, factor: number, at: number, total: number): Window {
  const width = end - start;
  const next = Math.min(Math.max(width * factor, NARROWEST_NS), whole(total).end);
  const left = at - ((at - start) / width) * next;
  return inside({ start: left, end: left + next }, total);
}

export function panned({ start, end }: Window, by: number, total: number): Window {
  return inside({ start: start + by, end: end + by }, total);
}

/** As little moved as makes the event visible, and widened only if it does not fit. */
export function showing(window: Window, start: number, end: number, total: number): Window {
  if (start >= window.start && end <= window.end) {
    return window;
  }
  const width = window.end - window.start;
  if (end - start > width) {
    return around(start, end, total);
  }
  const left = start < window.start ? start - 0.1 * width : end - 0.9 * width;
  return inside({ start: left, end: left + width }, total);
}

/** The event with a little of what is beside it. */
export function around(start: number, end: number, total: number): Window {
  const margin = Math.max((end - start) * 0.1, NARROWEST_NS / 2);
  return inside({ start: start - margin, end: end + margin }, total);
}

function inside({ start, end }: Window, total: number): Window {
  const limit = whole(total).end;
  const width = Math.min(end - start, limit);
  const left = Math.min(Math.max(start, 0), limit - width);
  return { start: left, end: left + width };
}
