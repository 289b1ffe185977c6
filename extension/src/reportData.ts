/** What the server answers and what passes between the report's page and the rest of the extension. Types only. */

/** A place as the report names it: the file relative to the workspace, lines from 1, columns in code points from 0. */
export interface Span {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly end_line: number;
  readonly end_column: number;
}

/** What is used of the answer to `forwardlens/report`. */
export interface ReportData {
  readonly run: number;
  /** What to profile for another run like it. */
  readonly request: { readonly uri: string; readonly target: string | null };
  readonly entry: string;
  readonly target: string | null;
  readonly environment: { readonly python: string; readonly torch: string; readonly device: string };
  readonly forward: {
    readonly wall_ms: Quantiles;
    readonly device_busy_ms: number | null;
    readonly bound: string;
  };
  readonly unattributed_share: number;
  readonly lines: readonly ReportLine[];
  readonly findings: readonly ReportFinding[];
  readonly errors: readonly { readonly kind: string; readonly message: string }[];
  /** Whether code was edited since. */
  readonly stale: boolean;
  readonly files: Readonly<Record<string, string>>;
  readonly comparison: Comparison | null;
}

export interface Quantiles {
  readonly median: number;
  readonly p10: number;
  readonly p90: number;
  readonly n: number;
}

export interface ReportLine extends Span {
  readonly function: string;
  readonly calls: number;
  readonly self_ms: number;
  readonly total_ms: number;
  readonly share: number;
  readonly device_ms: number;
  readonly ops: readonly Operator[];
}

export interface Operator {
  readonly name: string;
  readonly calls: number;
  readonly self_ms: number;
  readonly total_ms: number;
  readonly device_ms: number;
  readonly shapes: readonly (readonly number[])[];
}

export interface ReportFinding extends Span {
  readonly rule: string;
  readonly message: string;
  readonly share: number;
  readonly fixes: readonly ReportFix[];
}

export interface ReportFix {
  readonly title: string;
  readonly reason: string | null;
  readonly verified: { readonly outcome: string; readonly speedup: number | null } | null;
}

export interface Comparison {
  readonly before_ms: Quantiles;
  readonly after_ms: Quantiles;
  readonly verdict: "faster" | "slower" | "same";
  readonly lines: readonly LineChange[];
  readonly operators: readonly OperatorChange[];
}

export interface LineChange {
  readonly file: string;
  readonly line_before: number | null;
  readonly line: number | null;
  readonly function: string;
  readonly code: string;
  readonly before_ms: number | null;
  readonly after_ms: number | null;
}

export interface OperatorChange {
  readonly name: string;
  readonly calls_before: number;
  readonly calls: number;
  readonly before_ms: number;
  readonly after_ms: number;
}

/** The answer to `forwardlens/timeline`. Times are nanoseconds; indices lead into the tables, -1 into none. */
export interface TimelineData {
  readonly run: number;
  readonly total_ns: number;
  readonly profiled_ns: number;
  readonly left_out: number;
  readonly left_out_ns: number;
  readonly lanes: readonly Lane[];
  readonly events: {
    readonly lane: readonly number[];
    readonly depth: readonly number[];
    readonly start: readonly number[];
    readonly duration: readonly number[];
    readonly name: readonly number[];
    readonly span: readonly number[];
    readonly shapes: readonly number[];
  };
  readonly memory: MemoryData | null;
  readonly names: readonly string[];
  readonly spans: readonly CodeSpan[];
  readonly shapes: readonly (readonly (readonly number[])[])[];
}

export interface Lane {
  readonly kind: "code" | "host" | "device";
  readonly name: string;
}

export interface CodeSpan extends Span {
  readonly code: string;
}

export interface MemoryData {
  readonly at: readonly number[];
  readonly bytes: readonly number[];
  readonly span: readonly number[];
  readonly peak_at: number;
  readonly peak_bytes: number;
  readonly held: readonly { readonly span: number; readonly bytes: number; readonly count: number }[];
}

/** To the page. A report of null: there is no run any more. */
export type ToPage =
  | { readonly kind: "report"; readonly report: ReportData | null }
  | { readonly kind: "timeline"; readonly timeline: TimelineData | null };

/** From the page. `ready` asks for everything. */
export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "open"; readonly span: Span }
  | { readonly kind: "export" }
  | { readonly kind: "profile" };
