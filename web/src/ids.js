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

  /** The node of exactly this id, or null. */
  exactly(id) {
    const [node] = this.#scan(this.text, BREAK + id + BREAK, 0, new Set(), 1);
    return node ?? null;
  }

  /** Add nodes to `found` until it has `most`; case does not count. `how` is whole, start or part. */
  search(query, how, found, most) {
    const asked = this.fold(query);
    if (!asked) return found;
    if (how === "part") return this.#scan(this.folded, asked, 1, found, most);
    return this.#scan(this.folded, BREAK + asked + (how === "whole" ? BREAK : ""), 0, found, most);
  }

  #scan(text, needle, before, found, most) {
    for (let at = text.indexOf(needle); at >= 0 && found.size < most; at = text.indexOf(needle, at + 1)) {
      const node = this.#holding(at);
      const inside = before ? at + needle.length <= this.at[node + 1] && at > this.at[node] : at === this.at[node];
      if (node < this.length && inside) found.add(node);
    }
    return found;
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
