/** Which rows of a table are shown, and in which order. */

import {
  columnFilteringFeature,
  constructTable,
  createFilteredRowModel,
  createSortedRowModel,
  globalFilteringFeature,
  rowSortingFeature,
  tableFeatures,
} from "@tanstack/table-core";
import { storeReactivityBindings } from "@tanstack/table-core/store-reactivity-bindings";

export interface Sort {
  readonly id: string;
  readonly desc: boolean;
}

/** A column by what it is sorted and searched by. */
export interface Key<Row> {
  readonly id: string;
  readonly value: (row: Row) => string | number | null;
}

const features = tableFeatures({
  coreReactivityFeature: storeReactivityBindings(),
  columnFilteringFeature,
  globalFilteringFeature,
  rowSortingFeature,
  filteredRowModel: createFilteredRowModel(),
  sortedRowModel: createSortedRowModel(),
});

interface SortedRow {
  getValue(column: string): unknown;
}

/** The rows that have every word of `filter` in one of their texts, sorted. Rows without a value come last. */
export function arranged<Row extends object>(
  rows: readonly Row[],
  keys: readonly Key<Row>[],
  sort: Sort,
  filter: string,
): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const table = constructTable({
    features,
    data: [...rows],
    columns: keys.map(({ id, value }) => ({
      id,
      accessorFn: (row: Row) => value(row) ?? undefined,
      sortUndefined: "last" as const,
      sortFn: (one: SortedRow, other: SortedRow, column: string) =>
        compared(one.getValue(column), other.getValue(column)),
    })),
    initialState: { sorting: [{ ...sort }], globalFilter: words },
    // Once a row, not once a column: the words may stand in different ones.
    getColumnCanGlobalFilter: (column) => column.id === keys[0]?.id,
    globalFilterFn: (row) => matches(row.original, keys, words),
  });
  return table.getRowModel().rows.map((row) => row.original);
}

function matches<Row>(row: Row, keys: readonly Key<Row>[], words: readonly string[]): boolean {
  const texts = keys.map(({ value }) => value(row)).filter((value) => typeof value === "string");
  const text = texts.join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function compared(one: unknown, other: unknown): number {
  if (typeof one === "string" && typeof other === "string") {
    return one.localeCompare(other, "en", { numeric: true });
  }
  return Number(one) - Number(other);
}
