/** A table that is sorted by its headings, filtered by a text field and walked by the arrow keys. */

import type { ComponentChildren, JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { count, percent, type Quantity } from "../src/numbers.ts";
import { arranged, type Key, type Sort } from "./arrange.ts";
import { remember, remembered } from "./host.ts";

export interface Column<Row> extends Key<Row> {
  readonly title: string;
  readonly hint?: string;
  readonly numeric?: boolean;
  readonly className?: string;
  readonly cell: (row: Row) => ComponentChildren;
}

type Head = Pick<Column<never>, "id" | "title" | "hint">;

/** Times or sizes, as `quantity` writes them. */
export function amountColumn<Row>(
  head: Head,
  quantity: (value: number) => Quantity,
  value: (row: Row) => number | null,
): Column<Row> {
  const cell = (row: Row) => {
    const amount = value(row);
    return <Amount value={amount === null ? null : quantity(amount)} />;
  };
  return { ...head, numeric: true, value, cell };
}

export function countColumn<Row>(head: Head, value: (row: Row) => number): Column<Row> {
  return { ...head, numeric: true, value, cell: (row) => count(value(row)) };
}

export function shareColumn<Row>(head: Head, value: (row: Row) => number): Column<Row> {
  return { ...head, numeric: true, className: "share", value, cell: (row) => <ShareBar share={value(row)} /> };
}

interface Props<Row> {
  readonly name: string;
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly sort: Sort;
  /** What the filter's field says; no field without it. */
  readonly filter?: string;
  readonly tools?: ComponentChildren;
  /** Undefined for a row that leads nowhere. */
  readonly open: (row: Row) => (() => void) | undefined;
}

/** More are a click away: a table of thousands of rows takes the page too long. */
const MOST_ROWS = 500;

export function DataTable<Row extends object>(props: Props<Row>): JSX.Element {
  const { name, label, columns, rows } = props;
  const [sort, setSort] = useState(remembered().sorts?.[name] ?? props.sort);
  const [filter, setFilter] = useState(remembered().filters?.[name] ?? "");
  const [all, setAll] = useState(false);
  const shown = useMemo(() => arranged(rows, columns, sort, filter), [rows, columns, sort, filter]);
  const visible = all ? shown : shown.slice(0, MOST_ROWS);

  const sortBy = ({ id, numeric }: Column<Row>) => {
    const next = { id, desc: sort.id === id ? !sort.desc : numeric === true };
    setSort(next);
    remember({ sorts: { ...remembered().sorts, [name]: next } });
  };
  const filterBy = (text: string) => {
    setFilter(text);
    remember({ filters: { ...remembered().filters, [name]: text } });
  };

  return (
    <div class="table">
      {props.filter !== undefined && (
        <div class="tools">
          <input
            type="search"
            value={filter}
            placeholder={props.filter}
            aria-label={props.filter}
            spellcheck={false}
            onInput={(event) => filterBy(event.currentTarget.value)}
          />
          {props.tools}
          <span class="quiet" role="status">
            {shown.length === rows.length
              ? count(rows.length, "row")
              : `${count(shown.length)} of ${count(rows.length, "row")}`}
          </span>
        </div>
      )}
      <div class="scroller">
        <table aria-label={label}>
          <thead>
            <tr>
              {columns.map((column) => (
                <Heading key={column.id} column={column} sort={sort} onSort={() => sortBy(column)} />
              ))}
            </tr>
          </thead>
          <Body columns={columns} rows={visible} open={props.open} />
        </table>
        {rows.length > 0 && shown.length === 0 && <p class="quiet">Nothing matches "{filter}".</p>}
        {visible.length < shown.length && (
          <button type="button" class="secondary" onClick={() => setAll(true)}>
            Show all {count(shown.length, "row")}
          </button>
        )}
      </div>
    </div>
  );
}

function Heading<Row>({ column, sort, onSort }: { column: Column<Row>; sort: Sort; onSort: () => void }): JSX.Element {
  const active = sort.id === column.id;
  const direction = active ? (sort.desc ? "descending" : "ascending") : "none";
  return (
    <th scope="col" aria-sort={direction} class={classOf(column)}>
      <button type="button" onClick={onSort} title={column.hint}>
        {column.title}
        <span class="arrow" aria-hidden="true">
          {active ? (sort.desc ? "↓" : "↑") : ""}
        </span>
      </button>
    </th>
  );
}

function Body<Row extends object>({ columns, rows, open }: Pick<Props<Row>, "columns" | "rows" | "open">): JSX.Element {
  const body = useRef<HTMLTableSectionElement>(null);
  const [current, setCurrent] = useState(0);
  // One row takes part in the order of Tab; the arrow keys move which.
  const focused = Math.min(current, rows.length - 1);

  const move = (event: KeyboardEvent, index: number) => {
    const target = targetOf(event.key, index, rows.length);
    if (target === undefined) {
      return;
    }
    event.preventDefault();
    setCurrent(target);
    (body.current?.rows[target] as HTMLElement | undefined)?.focus();
  };

  return (
    <tbody ref={body}>
      {rows.map((row, index) => {
        const go = open(row);
        return (
          <tr
            key={index}
            tabIndex={index === focused ? 0 : -1}
            class={go === undefined ? undefined : "leads"}
            onFocus={() => setCurrent(index)}
            onClick={go}
            onKeyDown={(event) => (event.key === "Enter" ? go?.() : move(event, index))}
          >
            {columns.map((column) => (
              <td key={column.id} class={classOf(column)}>
                {column.cell(row)}
              </td>
            ))}
          </tr>
        );
      })}
    </tbody>
  );
}

const PAGE = 20;

function targetOf(key: string, index: number, length: number): number | undefined {
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    PageDown: index + PAGE,
    PageUp: index - PAGE,
    Home: 0,
    End: length - 1,
  };
  const target = targets[key];
  return target === undefined ? undefined : Math.max(0, Math.min(target, length - 1));
}

function classOf<Row>({ numeric, className }: Column<Row>): string {
  return [numeric && "numeric", className].filter(Boolean).join(" ");
}

/** A number whose digits end where those above and below it do. */
function Amount({ value }: { value: Quantity | null }): JSX.Element {
  if (value === null || value.number === "0") {
    return <span class="none">–</span>;
  }
  return (
    <>
      {value.number}
      <span class="unit">{value.unit}</span>
    </>
  );
}

/** A share of the whole, as a bar and as a number. */
function ShareBar({ share }: { share: number }): JSX.Element {
  return (
    <>
      <span class="bar" aria-hidden="true">
        <span style={{ width: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      </span>
      <span class="share-number">{percent(share)}</span>
    </>
  );
}

export function Place({ file, line }: { file: string; line: number }): JSX.Element {
  const name = file.slice(file.lastIndexOf("/") + 1);
  return (
    <span class="place" title={file}>
      {name}:{line}
    </span>
  );
}
