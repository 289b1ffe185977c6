/** A run's report as plain text: readable in any theme, by any screen reader, and searchable. */

/** What is used of the server's answer to `forwardlens/report`; its JSON report describes the rest. */
export interface ReportData {
  readonly entry: string;
  readonly target: string | null;
  readonly environment: { readonly python: string; readonly torch: string; readonly device: string };
  readonly forward: {
    readonly wall_ms: { readonly median: number; readonly p10: number; readonly p90: number; readonly n: number };
    readonly bound: string;
  };
  readonly unattributed_share: number;
  readonly lines: readonly ReportLine[];
  readonly findings: readonly ReportFinding[];
  readonly errors: readonly { readonly message: string }[];
  readonly stale: boolean;
  /** Where each of `lines` stands in the editor, counted from 0; null if it was edited since. */
  readonly places: readonly (number | null)[];
  /** The address of each file that the report names. */
  readonly files: Readonly<Record<string, string>>;
}

interface Place {
  readonly file: string;
  readonly line: number;
}

interface ReportLine extends Place {
  readonly function: string;
  readonly calls: number;
  readonly self_ms: number;
  readonly share: number;
  readonly ops: readonly { readonly name: string; readonly self_ms: number }[];
}

interface ReportFinding extends Place {
  readonly rule: string;
  readonly message: string;
  readonly share: number;
  readonly fixes: readonly ReportFix[];
}

interface ReportFix {
  readonly title: string;
  readonly reason: string | null;
  readonly verified: { readonly outcome: string; readonly speedup: number | null } | null;
}

/** A piece of a row that leads to a place in the code: `target` is an address with the line as its fragment. */
export interface Link {
  readonly row: number;
  readonly start: number;
  readonly end: number;
  readonly target: string;
}

export interface ReportText {
  readonly text: string;
  readonly links: readonly Link[];
}

/** A row before it has a number. `place` stands at `at`. */
interface Row {
  readonly text: string;
  readonly place?: { readonly at: number; readonly name: string; readonly target: string };
}

const MOST_LINES = 30;
const MOST_OPERATORS = 3;
const SMALLEST_SHARE = 0.005;
const INDENT = "  ";
/** Columns. A line of code's own width, so that the report needs no scrolling beside the code. */
const WIDTH = 100;

export function reportText(data: ReportData): ReportText {
  const rows = [...heading(data), ...findings(data), ...costs(data), ...errors(data)];
  return { text: rows.map(({ text }) => text).join("\n"), links: rows.flatMap(linkOf) };
}

function linkOf({ place }: Row, row: number): Link[] {
  return place === undefined ? [] : [{ row, start: place.at, end: place.at + place.name.length, target: place.target }];
}

function heading({ entry, target, environment, forward, stale }: ReportData): Row[] {
  const { median, p10, p90, n } = forward.wall_ms;
  const { python, torch, device } = environment;
  return plain(
    `${target ?? entry}: ${ms(median)}`,
    "",
    ...(stale ? ["The code was edited since; profile again for numbers of the code as it is.", ""] : []),
    ...wrapped(`${ms(p10)} to ${ms(p90)} (10th to 90th percentile of ${n} runs), ${bound(forward.bound)}`, ""),
    ...wrapped(`${entry} with torch ${torch} and Python ${python} on ${device}`, ""),
    "",
  );
}

function findings(data: ReportData): Row[] {
  const rows = data.findings.flatMap((finding) => [
    placed(data, finding, placeOf(data, finding), INDENT, `  ${finding.rule}`),
    ...plain(...wrapped(finding.message, INDENT + INDENT)),
    ...plain(...finding.fixes.flatMap((fix) => wrapped(`Fix: ${fix.title}${outcome(fix)}`, INDENT + INDENT))),
    ...plain(""),
  ]);
  return rows.length === 0 ? plain("No findings", "") : [...plain("Findings"), ...rows];
}

const OUTCOMES: Readonly<Record<string, string>> = {
  equal: "outputs equal",
  "no-gain": "outputs equal, no gain measured",
  slower: "slower",
  differs: "outputs differ",
  raises: "it fails",
};

function outcome({ verified, reason }: ReportFix): string {
  if (verified === null) {
    return reason === null ? "" : ` (check first: ${reason})`;
  }
  const words = OUTCOMES[verified.outcome] ?? verified.outcome;
  const speedup = verified.outcome === "equal" && verified.speedup !== null;
  return ` (tried: ${words}${speedup ? `, ${verified.speedup?.toPrecision(3)}x faster` : ""})`;
}

function costs(data: ReportData): Row[] {
  const shown = byLine(data)
    .filter(({ share }) => share >= SMALLEST_SHARE)
    .sort((one, other) => other.share - one.share)
    .slice(0, MOST_LINES);
  const width = Math.max(0, ...shown.map((line) => nameOf(line).length));
  const rows = shown.map((line) => {
    const numbers = columns(percent(line.share), ms(line.self_ms), count(line.calls));
    const gap = " ".repeat(width - nameOf(line).length + 2);
    return placed(data, line, line.place, numbers, operators(line) && gap + operators(line));
  });
  const rest = `${columns(percent(data.unattributed_share), "", "")}belongs to no line`;
  return [...plain("Costs", `${columns("share", "time", "calls")}where and what`), ...rows, ...plain(rest, "")];
}

/** One cost for each line, as everywhere else in the editor: the server measures each expression. */
function byLine(data: ReportData): (ReportLine & { readonly place: number | null })[] {
  const lines = new Map<string, ReportLine & { readonly place: number | null }>();
  for (const [index, line] of data.lines.entries()) {
    const known = lines.get(nameOf(line));
    const sum = known === undefined ? line : together(known, line);
    lines.set(nameOf(line), { ...sum, place: known?.place ?? data.places[index] ?? null });
  }
  return [...lines.values()];
}

function together(one: ReportLine, other: ReportLine): ReportLine {
  return {
    ...one,
    calls: Math.max(one.calls, other.calls),
    self_ms: one.self_ms + other.self_ms,
    share: one.share + other.share,
    ops: [...one.ops, ...other.ops],
  };
}

function columns(share: string, time: string, calls: string): string {
  return `${INDENT}${share.padStart(7)}${time.padStart(11)}${calls.padStart(8)}${INDENT}`;
}

/** Those that cost most, under the names that torch's own documentation has. */
function operators({ ops }: ReportLine): string {
  const times = new Map<string, number>();
  for (const { name, self_ms } of ops) {
    times.set(name, (times.get(name) ?? 0) + self_ms);
  }
  const costliest = [...times].sort(([, one], [, other]) => other - one).slice(0, MOST_OPERATORS);
  return costliest.map(([name]) => name.replace(/^aten::/, "")).join(", ");
}

function errors({ errors }: ReportData): Row[] {
  return errors.length === 0 ? [] : plain("Problems", ...errors.flatMap(({ message }) => wrapped(message, INDENT)), "");
}

/** Findings stand on lines that have a cost, whose present place the server told. */
function placeOf(data: ReportData, { file, line }: Place): number | null {
  const index = data.lines.findIndex((cost) => cost.file === file && cost.line === line);
  return data.places[index] ?? (data.stale ? null : line - 1);
}

/** A row that names a line of code, with a link to where it is now; without one if it was edited. */
function placed(data: ReportData, { file, line }: Place, place: number | null, before: string, after: string): Row {
  const name = nameOf({ file, line });
  const uri = data.files[file];
  const text = before + name + after;
  return uri === undefined || place === null
    ? { text }
    : { text, place: { at: before.length, name, target: `${uri}#L${place + 1}` } };
}

function nameOf({ file, line }: Place): string {
  return `${file}:${line}`;
}

function plain(...texts: string[]): Row[] {
  return texts.map((text) => ({ text }));
}

/** Prose in rows of at most `WIDTH` columns, each after `indent`; a longer word has a row of its own. */
function wrapped(text: string, indent: string): string[] {
  const rows: string[] = [];
  for (const word of text.trim().split(/\s+/)) {
    const row = `${rows.at(-1)} ${word}`;
    if (rows.length > 0 && row.length <= WIDTH) {
      rows[rows.length - 1] = row;
    } else {
      rows.push(indent + word);
    }
  }
  return rows;
}

const BOUNDS: Readonly<Record<string, string>> = {
  dispatch: "bound by dispatch: the time goes into Python and into starting operators",
  compute: "bound by compute: the time goes into the operators themselves",
  sync: "bound by waiting: the host waits for the device",
  memory: "bound by memory: the time goes into moving and allocating data",
  mixed: "bound by several things",
};

function bound(kind: string): string {
  return BOUNDS[kind] ?? `bound by ${kind}`;
}

const UNITS: readonly (readonly [string, number])[] = [
  ["s", 1000],
  ["ms", 1],
  ["µs", 0.001],
];

/** Three digits in the unit that suits, as in the hints beside the code. */
function ms(value: number): string {
  const [unit, size] = UNITS.find(([, size]) => value / size >= 0.9995) ?? ["ms", 1];
  return value === 0 ? "0 ms" : `${digits(value / size)} ${unit}`;
}

/** `toPrecision` without its exponents. */
function digits(value: number): string {
  const text = value.toPrecision(3);
  return text.includes("e") ? String(Number(text)) : text;
}

function percent(share: number): string {
  if (share < 0.0005) {
    return share === 0 ? "0 %" : "<0.1 %";
  }
  return share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toFixed(1)} %`;
}

function count(number: number): string {
  return number.toLocaleString("en-US");
}
