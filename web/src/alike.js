// The marks most like a mark: as packed, exact, or computed here by weights that the reader has set.

const LEAST_TOP = 2; // a slider goes up to this, or to twice the weight of the roles
const STEPS = 40;

export class Alike {
  /** `near`: the packed lists; `vectors`: the axes of all blocks, those of two bytes apart (explore/coordinates.py). */
  constructor({ nearest, marks, blocks }, near, vectors) {
    Object.assign(this, { nearest, marks, near, vectors, blocks, parts: null });
    let [wide, narrow] = [0, 0];
    for (const block of blocks) {
      Object.assign(block, { wideAt: wide, narrowAt: narrow, top: Math.max(LEAST_TOP, 2 * block.weight) });
      block.tick = block.top / STEPS;
      wide += block.wide;
      narrow += block.narrow;
    }
    this.reset();
  }

  reset() {
    this.weights = this.blocks.map(({ weight }) => weight);
  }

  /** Set the weight of a block; false if there is no such block or no such weight. */
  weigh(name, weight) {
    const i = this.blocks.findIndex((block) => block.name === name);
    if (i < 0 || !(weight >= 0 && weight <= this.blocks[i].top)) return false;
    this.weights[i] = weight;
    return true;
  }

  /** [name, weight] of the blocks that are not at the weight of the roles. */
  get changed() {
    return this.blocks.flatMap(({ name, weight }, i) => (this.weights[i] === weight ? [] : [[name, this.weights[i]]]));
  }

  /** Up to ten {mark, distance}, nearest first. */
  of(mark) {
    return this.changed.length ? this.#computed(mark) : this.#packed(mark);
  }

  #packed(mark) {
    const out = [];
    for (let at = mark * this.nearest; at < (mark + 1) * this.nearest && this.near.index[at] < this.marks; at++) {
      out.push({ mark: this.near.index[at], distance: this.near.distance[at] / 10000 });
    }
    return out;
  }

  #computed(mark) {
    if (this.parts?.mark !== mark) this.parts = { mark, squared: this.blocks.map((block) => this.#squared(block, mark)) };
    const shares = this.weights.map((w) => w * w);
    const unit = Math.sqrt(2 * this.blocks.reduce((sum, { variance }, b) => sum + shares[b] * variance, 0));
    if (!unit) return [];
    const total = new Float64Array(this.marks);
    this.parts.squared.forEach((squared, b) => {
      if (shares[b]) for (let i = 0; i < total.length; i++) total[i] += shares[b] * squared[i];
    });
    return smallest(total, mark, this.nearest).map((i) => ({ mark: i, distance: Math.sqrt(total[i]) / unit }));
  }

  /** The squared distances of all marks to this one in one block. */
  #squared({ wide, wideAt, narrow, narrowAt, step }, mark) {
    const out = new Float64Array(this.marks);
    const add = (codes, from, axes) => {
      for (let axis = from; axis < from + axes; axis++) {
        const own = codes[axis * out.length + mark];
        for (let i = 0, at = axis * out.length; i < out.length; i++, at++) out[i] += (codes[at] - own) ** 2;
      }
    };
    add(this.vectors.wide, wideAt, wide);
    add(this.vectors.narrow, narrowAt, narrow);
    for (let i = 0; i < out.length; i++) out[i] *= step * step;
    return out;
  }
}

/** The places of the smallest values but `skip`, ascending; of equal ones the first. */
function smallest(values, skip, most) {
  const best = [];
  for (let i = 0; i < values.length; i++) {
    if (i === skip || (best.length === most && values[i] >= values[best.at(-1)])) continue;
    let at = best.length;
    while (at > 0 && values[best[at - 1]] > values[i]) at--;
    best.splice(at, 0, i);
    if (best.length > most) best.pop();
  }
  return best;
}
