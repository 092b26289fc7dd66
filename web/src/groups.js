// Nodes with the same vector are one mark of the map: which nodes a mark stands for.

export class Groups {
  /** `mark`: the mark of each node; `typical`: nodes that name their mark. */
  constructor(mark, marks, typical) {
    this.mark = mark;
    this.at = new Uint32Array(marks + 1);
    for (const m of mark) this.at[m + 1]++;
    for (let m = 0; m < marks; m++) this.at[m + 1] += this.at[m];
    const free = this.at.slice();
    this.members = new Uint32Array(mark.length);
    mark.forEach((m, node) => (this.members[free[m]++] = node));
    this.faces = Uint32Array.from({ length: marks }, (_, m) => this.members[this.at[m]]);
    for (const node of [...typical].reverse()) if (node < mark.length) this.faces[mark[node]] = node;
  }

  get length() {
    return this.faces.length;
  }

  of(node) {
    return this.mark[node];
  }

  nodes(mark) {
    return this.members.subarray(this.at[mark], this.at[mark + 1]);
  }

  count(mark) {
    return this.at[mark + 1] - this.at[mark];
  }

  /** The node that gives a mark its name. */
  face(mark) {
    return this.faces[mark];
  }

  /** One code per mark from one per node: the commonest, or of numbers the median; `missing` only if all are. */
  codes(codes, isNumber, missing) {
    if (this.length === this.mark.length) return codes;
    return Uint8Array.from({ length: this.length }, (_, m) => {
      const known = Array.from(this.nodes(m), (node) => codes[node]).filter((code) => code !== missing);
      if (known.length < 2) return known[0] ?? missing;
      return isNumber ? known.sort((a, b) => a - b)[known.length >> 1] : commonest(known);
    });
  }
}

function commonest(codes) {
  const counts = new Map();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return [...counts].sort(([a, x], [b, y]) => y - x || a - b)[0][0];
}
