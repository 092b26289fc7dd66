// What the map can be coloured by: roles, and any column of codes with the value each code stands for.
import { MARKS, colorOf, noColor, scaleColor, shapeOf } from "./palette.js";

export const MISSING = 255;
const OTHER = 254;

export class Columns {
  constructor(list, arrays, shown) {
    Object.assign(this, { list, arrays, shown });
    this.byName = new Map(list.map((_, i) => [this.key(i), i]));
  }

  /** Under which a column is found again, and the column of such a key; null if there is none. */
  key(i) {
    return `${this.list[i].group} ${this.list[i].name}`;
  }

  called(key) {
    return this.byName.get(key) ?? null;
  }

  /** Whether a label is called so; a feature of that name is listed only when it is asked for. */
  isLabel(name) {
    return this.byName.has(`label ${name}`);
  }

  /** The code of every node on the map.  -> (shown,) */
  codes(i) {
    const { dense, sparse } = this.list[i];
    if (dense !== undefined) return this.arrays.dense.subarray(dense * this.shown, (dense + 1) * this.shown);
    const out = new Uint8Array(this.shown);
    for (let at = this.arrays.starts[sparse]; at < this.arrays.starts[sparse + 1]; at++) {
      out[this.arrays.rows[at]] = this.arrays.codes[at];
    }
    return out;
  }

  /** The values that the codes of a column of numbers stand for, ascending. */
  table(i) {
    return this.arrays.tables.subarray(this.arrays.table_at[i], this.arrays.table_at[i + 1]);
  }

  /** What a code says, as text or a number; null if there is none. */
  value(i, code) {
    if (code === MISSING) return null;
    const { kind, levels } = this.list[i];
    return kind === "number" ? this.table(i)[code] : code === OTHER ? "other" : levels[code];
  }

  /** The features of one node that are not zero, most unusual value first. */
  ofNode(node, most) {
    const found = [];
    this.list.forEach(({ group, kind, dense, sparse }, i) => {
      if (group !== "feature" || kind !== "number") return;
      let code = 0;
      if (dense !== undefined) code = this.arrays.dense[dense * this.shown + node];
      else {
        const [from, to] = [this.arrays.starts[sparse], this.arrays.starts[sparse + 1]];
        const at = this.arrays.rows.subarray(from, to).indexOf(node);
        if (at >= 0) code = this.arrays.codes[from + at];
      }
      const table = this.table(i);
      if (code !== MISSING && table[code] !== 0) found.push({ column: i, value: table[code], rank: code / Math.max(table.length - 1, 1), common: sparse === undefined ? this.shown : this.arrays.starts[sparse + 1] - this.arrays.starts[sparse] });
    });
    found.sort((a, b) => a.common - b.common || b.rank - a.rank);
    return { total: found.length, first: found.slice(0, most) };
  }
}

/** How the marks look under one choice: `mark(i)` -> {color, shape, under}, and what the legend says. */
export function lookOf(choice, { columns, role, roles, groups, dark }) {
  if (choice === "role") {
    return {
      kind: "role",
      mark: (i) => ({ color: colorOf(role[groups.face(i)], dark), shape: shapeOf(role[groups.face(i)]), under: false }),
      legend: roles.map((card, r) => ({ text: `${r}`, color: colorOf(r, dark), shape: shapeOf(r), role: r })),
    };
  }
  const column = columns.list[choice];
  const own = columns.codes(choice);
  const codes = groups.codes(own, column.kind === "number", MISSING);
  if (column.kind === "category") {
    const color = (code) => (code < Math.min(column.levels.length, MARKS) ? colorOf(code, dark) : noColor(dark));
    const shape = (code) => (code < Math.min(column.levels.length, MARKS) ? shapeOf(code) : 0);
    const used = [...new Set(own)].sort((a, b) => a - b);
    return {
      kind: "category",
      mark: (i) => ({ color: color(codes[i]), shape: shape(codes[i]), under: codes[i] >= OTHER }),
      legend: used.map((code) => ({ text: columns.value(choice, code) ?? "none", color: color(code), shape: shape(code) })),
    };
  }
  const table = columns.table(choice);
  const last = Math.max(table.length - 1, 1);
  const quiet = column.sparse !== undefined && table[0] === 0; // most nodes have none of it
  const color = (code) => (code === MISSING || (quiet && code === 0) ? noColor(dark) : scaleColor(code / last, dark));
  const colors = Array.from({ length: 256 }, (_, code) => color(code));
  return {
    kind: "number",
    mark: (i) => ({ color: colors[codes[i]], shape: 0, under: codes[i] === MISSING || (quiet && codes[i] === 0) }),
    scale: { low: table[quiet && table.length > 1 ? 1 : 0], middle: table[table.length >> 1], high: table[table.length - 1], quiet },
    at: (share) => scaleColor(share, dark),
  };
}
