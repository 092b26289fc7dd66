// The roles as cards: how many, who is typical, what their place in the graph is like, what they do.
import { count, counted, draw, make, named, number, percent } from "./dom.js";
import { colorOf, shapeOf } from "./palette.js";
import { glyph } from "./glyph.js";

const FIRST_LABELS = 4; // values of a label that are seen at once

/** `tell`: {light(role), open(node), color(column)}. */
export function roleCard(card, role, { dark, nodes, names, columns, tell }) {
  const color = colorOf(role, dark);
  const light = () => tell.light(role);
  const element = make(
    "article",
    { class: "card", "data-role": role, style: { "--role": color }, onclick: (event) => event.target.closest("button, summary, details") || light() },
    make(
      "button",
      { class: "head", "aria-pressed": "false", "data-light": role, onclick: light, title: "Light up its members on the map" },
      glyph(color, shapeOf(role), 20),
      make("strong", {}, `Role ${role}`),
      make("span", { class: "size" }, `${counted(card.size, "node")} · ${percent(card.size / nodes)}`),
    ),
    make("p", { class: "summary" }, card.summary),
    make(
      "p",
      { class: "names" },
      make("span", { class: "label" }, "typical"),
      card.prototypes.map((node) => make("button", { class: "name", "data-node": node, title: names.said(node), onclick: () => tell.open(node) }, named(names.of(node)))),
    ),
    card.features.length
      ? make(
          "p",
          { class: "names" },
          make("span", { class: "label" }, "does"),
          card.features.map((feature) => featureChip(feature, tell)),
        )
      : null,
    card.labels.map((said) => labelTable(said, { columns, tell })),
    card.profile.length
      ? make(
          "details",
          { open: role === 0 },
          make("summary", {}, "Place in the graph"),
          make("div", { class: "profile" }, card.profile.map(profileRow)),
          edgeBar(card.edges, role, dark),
        )
      : null,
  );
  return element;
}

function featureChip({ name, strength, column, note }, tell) {
  const text = [named(name), make("small", {}, ` ${strength}`)];
  const title = `${note}${column === null ? "" : "; click to colour the map by it"}`;
  return column === null
    ? make("span", { class: "name", title }, text)
    : make("button", { class: "name", title, "data-feature": name, onclick: () => tell.color(column) }, text);
}

/** What the role has of a label: words with share and lift, amounts with their median. */
function labelTable({ column, rows, more, median, overall, unlabelled }, { columns, tell }) {
  const head = make(
    "p",
    { class: "label-head" },
    make("button", { class: "plain", title: "Colour the map by it", onclick: () => tell.color(columns.called(`label ${column}`)) }, named(column)),
    make("small", {}, rows ? "nodes · share · lift" : "median"),
  );
  const without = unlabelled ? make("p", { class: "soft" }, `${counted(unlabelled, "node")} without`) : null;
  if (!rows) {
    const said = median === null ? "none" : `${number(median)}, of all nodes ${number(overall)}`;
    return make("div", { class: "labels" }, head, make("p", {}, said), without);
  }
  const [first, rest] = [rows.slice(0, FIRST_LABELS), rows.slice(FIRST_LABELS)];
  const further = rest.length + more;
  return make(
    "div",
    { class: "labels" },
    head,
    make("div", { role: "table", "aria-label": `${column}: nodes, share of the role, lift` }, first.map(labelRow)),
    further
      ? make(
          "details",
          {},
          make("summary", {}, `${counted(further, "more value")}`),
          make("div", { role: "table", "aria-label": `${column}, continued` }, rest.map(labelRow)),
          more ? make("p", { class: "soft" }, `and ${count(more)} more in `, make("code", {}, "rae roles --labels")) : null,
        )
      : null,
    without,
  );
}

function labelRow([label, nodes, share, lift]) {
  const cell = (name, ...children) => make("span", { role: "cell", class: name }, ...children);
  const times = `${lift < 10 ? lift.toFixed(1) : Math.round(lift)}×`;
  return make(
    "div",
    { class: lift > 1 ? "label-row high" : "label-row", role: "row", title: `${counted(nodes, "node")} of the role, ${percent(share)} of those with a label; ${times} the share among all nodes` },
    cell("what", make("span", { class: "fill", style: { width: `${100 * share}%` } }), named(label)),
    cell("value", count(nodes)),
    cell("value", percent(share)),
    cell("value lift", times),
  );
}

/** Where the role's middle half lies among all nodes: 0 is the lowest node of the graph, 100 the highest. */
function profileRow({ name, low, middle, high, value }) {
  const at = (share) => 100 * share;
  const said = `${name}: median ${number(value)}, above ${percent(middle)} of all nodes`;
  return make(
    "div",
    { class: "row", title: said },
    make("span", {}, name),
    draw(
      "svg",
      { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": said },
      draw("rect", { class: "track", x: 0, y: 3.5, width: 100, height: 3, rx: 1.5 }),
      draw("rect", { class: "band", x: at(low), y: 2, width: Math.max(at(high - low), 1.2), height: 6, rx: 1 }),
      draw("rect", { class: "tick", x: Math.min(Math.max(at(middle) - 0.6, 0), 98.8), y: 0, width: 1.2, height: 10 }),
    ),
    make("span", { class: "value" }, number(value)),
  );
}

function edgeBar(edges, role, dark) {
  const total = edges.reduce((sum, share) => sum + share, 0);
  if (!total) return make("p", { class: "soft" }, "No edges.");
  let from = 0;
  const parts = edges.map((share, other) => {
    const piece = draw(
      "rect",
      { x: 100 * from, y: 0, width: 100 * share, height: 10, fill: colorOf(other, dark) },
      draw("title", {}, `${percent(share)} of its edges lead to role ${other}`),
    );
    from += share / total;
    return piece;
  });
  const inside = `${percent(edges[role])} of its edges stay inside the role`;
  return make(
    "div",
    { class: "edges" },
    draw("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": `Where its edges go. ${inside}` }, parts),
    make("p", { class: "soft" }, `Edges by the role they lead to. ${inside}.`),
  );
}
