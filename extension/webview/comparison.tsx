/** The last two runs of one forward, line by line and operator by operator. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { factor, type Quantity, text, time } from "../src/numbers.ts";
import type { Comparison, LineChange, OperatorChange, Quantiles } from "../src/reportData.ts";
import { send } from "./host.ts";
import { shortName } from "./operatorRows.ts";
import { amountColumn, type Column, countColumn, DataTable, Place } from "./table.tsx";

export function BeforeAfter({ comparison }: { comparison: Comparison | null }): JSX.Element {
  if (comparison === null) {
    return (
      <div class="empty">
        <p>One run so far. Change the code, then profile again to see what the change did.</p>
        <button type="button" onClick={() => send({ kind: "profile" })}>
          Profile again
        </button>
      </div>
    );
  }
  return <Changes comparison={comparison} />;
}

function Changes({ comparison }: { comparison: Comparison }): JSX.Element {
  const lines = useMemo(() => comparison.lines.filter(isNoticeable(comparison)), [comparison]);
  const operators = useMemo(() => {
    const noticeable = isNoticeable(comparison);
    return comparison.operators.filter((change) => cameOrWent(change) || noticeable(change));
  }, [comparison]);
  const largest = Math.max(...lines.map((change) => Math.abs(changeOf(change))), 0);
  const lineColumns = useMemo(() => columnsOfLines(largest), [largest]);
  return (
    <>
      <Verdict comparison={comparison} />
      <h2>Lines</h2>
      <DataTable
        name="changed-lines"
        label="Lines before and after"
        columns={lineColumns}
        rows={lines}
        sort={{ id: "change", desc: false }}
        open={leadingTo}
      />
      <h2>Operators</h2>
      <DataTable
        name="changed-operators"
        label="Operators before and after"
        columns={OPERATOR_COLUMNS}
        rows={operators}
        sort={{ id: "change", desc: false }}
        open={() => undefined}
      />
      <p class="note">Changes below 0.5 % of the forward are left out.</p>
    </>
  );
}

const VERDICTS = { faster: "faster", slower: "slower", same: "no clear difference: the runs of both overlap" };

function Verdict({ comparison }: { comparison: Comparison }): JSX.Element {
  const { before_ms: before, after_ms: after, verdict } = comparison;
  const ratio = verdict === "slower" ? after.median / before.median : before.median / after.median;
  return (
    <p class={`verdict ${verdict}`}>
      <Run name="Before" wall={before} />
      <span class="to" aria-hidden="true">
        →
      </span>
      <Run name="After" wall={after} />
      <strong>
        {verdict === "same" ? "" : `${factor(ratio)} `}
        {VERDICTS[verdict]}
      </strong>
    </p>
  );
}

function Run({ name, wall }: { name: string; wall: Quantiles }): JSX.Element {
  return (
    <span class="run">
      <span class="quiet">{name}</span>
      <b>{text(time(wall.median))}</b>
      <span class="quiet">
        {text(time(wall.p10))} to {text(time(wall.p90))}
      </span>
    </span>
  );
}

type Change = Pick<LineChange, "before_ms" | "after_ms">;

function changeOf({ before_ms, after_ms }: Change): number {
  return (after_ms ?? 0) - (before_ms ?? 0);
}

function isNoticeable({ before_ms, after_ms }: Comparison): (change: Change) => boolean {
  const least = 0.005 * Math.max(before_ms.median, after_ms.median);
  return (change) => Math.abs(changeOf(change)) >= least;
}

/** However small: it tells what the edit did. */
function cameOrWent({ calls, calls_before }: OperatorChange): boolean {
  return calls === 0 || calls_before === 0;
}

function leadingTo({ file, line }: LineChange): (() => void) | undefined {
  if (line === null) {
    return undefined;
  }
  const span = { file, line, column: 0, end_line: line, end_column: 0 };
  return () => send({ kind: "open", span });
}

function columnsOfLines(largest: number): readonly Column<LineChange>[] {
  return [
    {
      id: "line",
      title: "Line",
      value: ({ file, line, line_before }) => `${file}:${line ?? line_before}`,
      cell: ({ file, line, line_before }) => <Place file={file} line={line ?? line_before ?? 0} />,
    },
    {
      id: "code",
      title: "Code",
      className: "code wide",
      value: ({ code }) => code,
      cell: ({ code, line, before_ms }) => (
        <>
          {line === null && <Tag>gone</Tag>}
          {before_ms === null && <Tag>new</Tag>}
          <span title={code}>{code}</span>
        </>
      ),
    },
    ...timesColumns<LineChange>(),
    {
      id: "bar",
      title: "",
      className: "diverging",
      value: (change) => Math.abs(changeOf(change)),
      cell: (change) => <Diverging part={largest === 0 ? 0 : changeOf(change) / largest} />,
    },
  ];
}

const OPERATOR_COLUMNS: readonly Column<OperatorChange>[] = [
  {
    id: "name",
    title: "Operator",
    className: "code wide",
    value: ({ name }) => name,
    cell: ({ name, calls, calls_before }) => (
      <>
        {calls === 0 && <Tag>vanished</Tag>}
        {calls_before === 0 && <Tag>appeared</Tag>}
        {shortName(name)}
      </>
    ),
  },
  countColumn({ id: "calls-before", title: "Calls before" }, ({ calls_before }) => calls_before),
  countColumn({ id: "calls", title: "Calls after" }, ({ calls }) => calls),
  ...timesColumns<OperatorChange>(),
];

function timesColumns<Row extends Change>(): Column<Row>[] {
  return [
    amountColumn({ id: "before", title: "Before" }, time, ({ before_ms }) => before_ms),
    amountColumn({ id: "after", title: "After" }, time, ({ after_ms }) => after_ms),
    amountColumn({ id: "change", title: "Change" }, signed, changeOf),
  ];
}

function signed(milliseconds: number): Quantity {
  const { number, unit } = time(Math.abs(milliseconds));
  const sign = milliseconds < 0 ? "−" : "+";
  return { number: number === "0" ? "0" : `${sign}${number}`, unit };
}

function Diverging({ part }: { part: number }): JSX.Element {
  return (
    <span class={`diverging-bar ${part < 0 ? "less" : "more"}`} aria-hidden="true">
      <span style={{ width: `${Math.abs(part) * 50}%` }} />
    </span>
  );
}

function Tag({ children }: { children: string }): JSX.Element {
  return <span class="tag">{children}</span>;
}
