/** What a notebook's cells say, without the editor. */

/** Whether a cell seems to define a module. A guess is enough: all that hangs on it is one line in the status. */
export function hasModule(code: string): boolean {
  return /^\s*class\s+\w+\s*\([^)]*Module\b[^)]*\)\s*:/m.test(code);
}
