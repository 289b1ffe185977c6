/**
 * Makes overlapping calls of `task` share work: at most one run is in progress, and at most one more is waiting.
 *
 * Whoever calls during a run gets the run after it, because the one in progress may already have read what changed.
 */
export function coalesced(task: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;

  function start(): Promise<void> {
    waiting = undefined;
    running = task().finally(() => {
      running = undefined;
    });
    return running;
  }

  return () => {
    if (running === undefined) {
      return start();
    }
    waiting ??= running.then(start, start);
    return waiting;
  };
}
