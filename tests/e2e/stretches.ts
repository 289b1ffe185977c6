/** How long an extension worked at a stretch, from a CPU profile of the process that it shares with others. */

interface Frame {
  readonly id: number;
  readonly callFrame: { readonly url: string; readonly functionName: string };
  readonly children?: readonly number[];
}

export interface CpuProfile {
  readonly nodes: readonly Frame[];
  readonly samples: readonly number[];
  /** Microseconds since the sample before. */
  readonly timeDeltas: readonly number[];
}

/** Milliseconds from begin to end, and of them those in which the process got to run. */
export interface Stretch {
  readonly lasted: number;
  readonly worked: number;
}

/** Samples are 0.1 ms apart: in a longer gap the process waited for a processor. */
const PAUSE_US = 1000;

/**
 * Each stretch of consecutive samples whose stack has a frame of a file that `isOurs`. What the code of others does on
 * our behalf counts.
 */
export function stretches({ nodes, samples, timeDeltas }: CpuProfile, isOurs: (url: string) => boolean): Stretch[] {
  const ours = framesUnder(nodes, isOurs);
  const found: number[][] = [];
  let current: number[] = [];
  samples.forEach((sample, index) => {
    if (ours.has(sample)) {
      current.push(timeDeltas[index + 1] ?? 0);
    } else if (current.length > 0) {
      found.push(current);
      current = [];
    }
  });
  return [...found, current].filter((deltas) => sum(deltas) > 0).map(stretchOf);
}

function stretchOf(deltas: readonly number[]): Stretch {
  return { lasted: sum(deltas) / 1000, worked: sum(deltas.map((delta) => Math.min(delta, PAUSE_US))) / 1000 };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function framesUnder(nodes: readonly Frame[], isOurs: (url: string) => boolean): Set<number> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const ours = new Set<number>();
  const pending = nodes.filter(({ callFrame }) => isOurs(callFrame.url));
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    if (!ours.has(node.id)) {
      ours.add(node.id);
      pending.push(...(node.children ?? []).flatMap((id) => byId.get(id) ?? []));
    }
  }
  return ours;
}
