// What a node is called: its display name where it has one, else its id.
import { make, named } from "./dom.js";
import { Ids } from "./ids.js";

export class Names {
  constructor(ids, names) {
    this.ids = new Ids(ids);
    this.names = names.lengths.length ? new Ids(names) : null;
  }

  /** Whether any node has a name besides its id. */
  get given() {
    return this.names !== null;
  }

  of(node) {
    return this.names?.of(node) || this.ids.of(node);
  }

  id(node) {
    return this.ids.of(node);
  }

  /** The name as an element, with the id beside it where that is another. */
  shown(node) {
    const id = this.names?.of(node) ? make("small", { class: "id" }, this.id(node)) : null;
    return id ? [named(this.of(node)), " ", id] : [named(this.of(node))];
  }

  /** The same as text. */
  said(node) {
    return this.names?.of(node) ? `${this.of(node)} · ${this.id(node)}` : this.id(node);
  }

  /** The node of exactly this id, or null. */
  exactly(id) {
    return this.ids.exactly(id);
  }

  /** Up to `most` nodes: called so, then those whose name or id begins so, then those that contain it. */
  find(query, most = 12) {
    const found = new Set();
    for (const how of ["whole", "start", "part"]) {
      for (const texts of [this.names, this.ids]) texts?.search(query, how, found, most);
    }
    return [...found];
  }
}
