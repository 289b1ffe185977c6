/** The page's half of the conversation with the extension. */

import type { FromPage, ToPage } from "../src/reportData.ts";
import type { Sort } from "./arrange.ts";

/** What the page remembers while it is hidden. */
export interface Memory {
  readonly tab?: string;
  readonly sorts?: Readonly<Record<string, Sort>>;
  readonly filters?: Readonly<Record<string, string>>;
}

interface Host {
  postMessage(message: FromPage): void;
  getState(): Memory | undefined;
  setState(state: Memory): void;
}

declare function acquireVsCodeApi(): Host;

const host = acquireVsCodeApi();

export function send(message: FromPage): void {
  host.postMessage(message);
}

export function onMessage(receive: (message: ToPage) => void): () => void {
  const listener = (event: MessageEvent<ToPage>) => receive(event.data);
  window.addEventListener("message", listener);
  return () => window.removeEventListener("message", listener);
}

export function remembered(): Memory {
  return host.getState() ?? {};
}

export function remember(change: Memory): void {
  host.setState({ ...remembered(), ...change });
}
