// Every id as one long text, so that a million of them are searched in milliseconds.
import { starts } from "./data.js";

const BREAK = "\u0000";

export class Ids {
  /** `bytes`: BREAK, id, BREAK, id, ..., BREAK as UTF-8; `lengths`: of each id with its BREAK, in UTF-16 units. */
  constructor({ text, lengths }) {
    this.text = new TextDecoder().decode(text);
    this.at = starts(lengths);
    const lower = this.text.toLowerCase();
    // A few letters change their length in lower case; then only a to z are folded.
    this.folded = lower.length === this.text.length ? lower : this.text.replace(/[A-Z]+/g, (s) => s.toLowerCase());
    this.fold = this.folded === lower ? (s) => s.toLowerCase() : (s) => s.replace(/[A-Z]+/g, (m) => m.toLowerCase());
  }

  get length() {
    return this.at.length - 1;
  }

  of(node) {
    return this.text.slice(this.at[node] + 1, this.at[node + 1]);
  }

  /** Up to `most` nodes: the id itself, then ids that begin so, then ids that contain it; case does not count. */
  find(query, most = 12) {
    const asked = this.fold(query);
    const found = new Set();
    if (!asked) return [];
    this.#scan(BREAK + asked + BREAK, 0, found, most);
    this.#scan(BREAK + asked, 0, found, most);
    this.#scan(asked, 1, found, most);
    return [...found];
  }

  #scan(needle, before, found, most) {
    for (let at = this.folded.indexOf(needle); at >= 0 && found.size < most; at = this.folded.indexOf(needle, at + 1)) {
      const node = this.#holding(at);
      const inside = before ? at + needle.length <= this.at[node + 1] && at > this.at[node] : at === this.at[node];
      if (node < this.length && inside) found.add(node);
    }
  }

  #holding(position) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.at[middle] <= position) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}
