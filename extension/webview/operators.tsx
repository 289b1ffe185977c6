/** Every operator with what it costs: where it ran, or over the whole forward. */

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { percent, time } from "../src/numbers.ts";
import type { ReportData } from "../src/reportData.ts";
import { send } from "./host.ts";
import { type OperatorRow, operatorRows, operatorTotals, shapesText, shortName } from "./operatorRows.ts";
import { amountColumn, type Column, countColumn, DataTable, Place, shareColumn } from "./table.tsx";

export function Operators({ report }: { report: ReportData }): JSX.Element {
  const [together, setTogether] = useState(false);
  const rows = useMemo(() => (together ? operatorTotals : operatorRows)(report.lines), [report, together]);
  const columns = useMemo(() => columnsFor(report, together), [report, together]);
  const median = report.forward.wall_ms.median;
  const own = useMemo(() => operatorRows(report.lines).reduce((sum, { self_ms }) => sum + self_ms, 0), [report]);
  const onDevice = report.forward.device_busy_ms !== null;

  if (rows.length === 0) {
    return (
      <p class="empty">
        This forward ran no operator in code of yours. Name the package that it runs in under <code>include</code> in
        pyproject.toml.
      </p>
    );
  }
  return (
    <>
      <DataTable
        name={together ? "totals" : "operators"}
        key={together ? "totals" : "operators"}
        label="Operators"
        columns={columns}
        rows={rows}
        sort={{ id: "self", desc: true }}
        filter="Filter operators, lines, shapes"
        tools={
          <label class="choice">
            <input type="checkbox" checked={together} onChange={(event) => setTogether(event.currentTarget.checked)} />
            Add up by operator
          </label>
        }
        open={({ span }) =>
          () =>
            send({ kind: "open", span })
          }
      />
      <p class="note">
        Operators take {percent(own / median)} of the forward; Python and the way to the operators take the rest.
        {onDevice ? "" : " CPU run: no device time."}
      </p>
    </>
  );
}

function columnsFor(report: ReportData, together: boolean): readonly Column<OperatorRow>[] {
  const median = report.forward.wall_ms.median;
  const onDevice = report.forward.device_busy_ms !== null;
  const columns: (Column<OperatorRow> | false)[] = [
    {
      id: "name",
      title: "Operator",
      value: ({ name }) => shortName(name),
      cell: ({ name }) => <Name name={name} />,
      className: "code",
    },
    !together && {
      id: "line",
      title: "Line",
      value: ({ span }) => `${span.file}:${span.line}`,
      cell: ({ span }) => <Place {...span} />,
    },
    amountColumn(
      { id: "self", title: "Self", hint: "Host time of the operator itself" },
      time,
      ({ self_ms }) => self_ms,
    ),
    shareColumn(
      { id: "share", title: "Share", hint: "Its own host time, of the whole forward" },
      ({ self_ms }) => self_ms / median,
    ),
    amountColumn(
      { id: "total", title: "Total", hint: "With the operators that it runs inside itself" },
      time,
      ({ total_ms }) => total_ms,
    ),
    onDevice &&
      amountColumn(
        { id: "device", title: "Device", hint: "Time of the kernels and copies that it launched" },
        time,
        ({ device_ms }) => device_ms,
      ),
    countColumn({ id: "calls", title: "Calls" }, ({ calls }) => calls),
    {
      id: "shapes",
      title: together ? "Shapes at its costliest place" : "Input shapes",
      value: ({ shapes }) => shapesText(shapes),
      cell: ({ shapes }) => <span title={shapesText(shapes)}>{shapesText(shapes)}</span>,
      className: "code wide",
    },
  ];
  return columns.filter((column) => column !== false);
}

function Name({ name }: { name: string }): JSX.Element {
  return <span title={name}>{shortName(name)}</span>;
}
