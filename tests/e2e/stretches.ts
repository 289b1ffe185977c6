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

/**
 * Milliseconds of each stretch of consecutive samples whose stack has a frame of a file that `isOurs`. What the code
 * of others does on our behalf counts, and so does a pause of the process inside a stretch.
 */
export function stretches({ nodes, samples, timeDeltas }: CpuProfile, isOurs: (url: string) => boolean): number[] {
  const ours = framesUnder(nodes, isOurs);
  const found: number[] = [];
  let current = 0;
  samples.forEach((sample, index) => {
    if (ours.has(sample)) {
      current += timeDeltas[index + 1] ?? 0;
    } else if (current > 0) {
      found.push(current / 1000);
      current = 0;
    }
  });
  return current > 0 ? [...found, current / 1000] : found;
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
