/** The level of a line that the server wrote to standard error. */
export type LogLevel = "error" | "warn" | "info" | "debug";

const LEVELS: readonly (readonly [string, LogLevel])[] = [
  ["CRITICAL ", "error"],
  ["ERROR ", "error"],
  ["WARNING ", "warn"],
  ["DEBUG ", "debug"],
];

/** Python's logging puts the level first. Anything else, such as the rest of a traceback, is information. */
export function logLevel(line: string): LogLevel {
  return LEVELS.find(([prefix]) => line.startsWith(prefix))?.[1] ?? "info";
}
