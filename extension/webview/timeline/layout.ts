/** Events in rows: which lie where, which is beside which. */

import type { CodeSpan, Lane, TimelineData } from "../../src/reportData.ts";

export interface Event {
  readonly index: number;
  readonly lane: Lane;
  readonly row: number;
  readonly start: number;
  readonly end: number;
  readonly name: string;
  readonly span: CodeSpan | undefined;
  readonly shapes: readonly (readonly number[])[];
}

/** Events of one depth in one lane, in order of time. They do not overlap. */
export interface Row {
  readonly lane: Lane;
  readonly isFirst: boolean;
  readonly events: readonly Event[];
}

export type Direction = "left" | "right" | "up" | "down";

export function rowsOf({ lanes, events, names, spans, shapes }: TimelineData): Row[] {
  const depths = lanes.map(() => 0);
  events.lane.forEach((lane, index) => {
    depths[lane] = Math.max(depths[lane] ?? 0, (events.depth[index] ?? 0) + 1);
  });
  const firsts: number[] = [];
  let next = 0;
  for (const depth of depths) {
    firsts.push(next);
    next += depth;
  }
  const rows: { lane: Lane; isFirst: boolean; events: Event[] }[] = lanes.flatMap((lane, number) =>
    Array.from({ length: depths[number] ?? 0 }, (_, depth) => ({ lane, isFirst: depth === 0, events: [] })),
  );
  events.lane.forEach((laneNumber, index) => {
    const lane = lanes[laneNumber];
    const row = (firsts[laneNumber] ?? 0) + (events.depth[index] ?? 0);
    const start = events.start[index] ?? 0;
    // What takes no time on any clock cannot be seen, and would only be in the way of the keys.
    if (lane !== undefined && (events.duration[index] ?? 0) > 0) {
      rows[row]?.events.push({
        index,
        lane,
        row,
        start,
        end: start + (events.duration[index] ?? 0),
        name: names[events.name[index] ?? -1] ?? "",
        span: spans[events.span[index] ?? -1],
        shapes: shapes[events.shapes[index] ?? -1] ?? [],
      });
    }
  });
  return rows;
}

/** The first event that ends after `time`, by its position in the row. */
export function firstAfter(events: readonly Event[], time: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((events[middle]?.end ?? 0) > time) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/** The event at a time, or the nearest within `slack` of it, so that the thinnest can be hit. */
export function eventAt(row: Row | undefined, time: number, slack: number): Event | undefined {
  const events = row?.events ?? [];
  const position = firstAfter(events, time);
  const candidates = [events[position - 1], events[position]].filter((event) => event !== undefined);
  const distance = ({ start, end }: Event) => Math.max(start - time, time - end, 0);
  const nearest = candidates.sort((one, other) => distance(one) - distance(other))[0];
  return nearest !== undefined && distance(nearest) <= slack ? nearest : undefined;
}

/** The next event of the same row, or the one above or below: the nearest in time of the next row that has any. */
export function neighbour(rows: readonly Row[], event: Event, direction: Direction): Event | undefined {
  const row = rows[event.row]?.events ?? [];
  const position = row.indexOf(event);
  if (direction === "left" || direction === "right") {
    return row[position + (direction === "right" ? 1 : -1)];
  }
  const step = direction === "down" ? 1 : -1;
  for (let number = event.row + step; rows[number] !== undefined; number += step) {
    const found = eventAt(rows[number], (event.start + event.end) / 2, Number.POSITIVE_INFINITY);
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}

/** How long nothing ran in its row before it. */
export function gapBefore(rows: readonly Row[], event: Event): number {
  const row = rows[event.row]?.events ?? [];
  const previous = row[row.indexOf(event) - 1];
  return Math.max(0, event.start - (previous?.end ?? 0));
}

/** How much of the forward something runs in a lane, for its first row. */
export function busyShare(row: Row, total: number): number {
  return total === 0 ? 0 : row.events.reduce((sum, { start, end }) => sum + end - start, 0) / total;
}

export type Kind = "code" | "compute" | "copy" | "wait" | "other";

const KINDS: readonly (readonly [Kind, RegExp])[] = [
  ["wait", /synchronize|_local_scalar_dense|::item$|wait/i],
  [
    "copy",
    /cop(y|ies)|clone|contiguous|memcpy|memset|::cat$|::to$|::fill|::zero|::full|::empty|repeat|stack|index_put/i,
  ],
  ["compute", /mm$|mm_|linear|conv|gemm|matmul|attention|dot$|cutlass|einsum|lstm|gru|embedding/i],
];

/** What an event does, for its colour. */
export function kindOf({ lane, name }: Pick<Event, "lane" | "name">): Kind {
  return lane.kind === "code" ? "code" : (KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? "other");
}
