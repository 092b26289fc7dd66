// One node: its role, how sure that is, what it is like, who is most like it, and what is around it.
import { count, counted, make, named, number, percent } from "./dom.js";
import { roleSign } from "./glyph.js";
import { neighborhood } from "./neighborhood.js";
import { colorOf } from "./palette.js";

const LISTED = 5; // roles with a membership bar

export function nodePanel(node, page) {
  const { facts, ids, map, dark, columns } = page;
  const onMap = node < facts.shown;
  return [
    make("h2", { tabindex: -1, id: "node-name" }, named(ids.of(node))),
    make(
      "p",
      { class: "facts" },
      roleSign(map.role[node], dark),
      make("span", {}, `${Math.round((100 * map.confidence[node]) / 255)} % sure`),
      make("span", {}, counted(map.degree[node], "neighbour")),
      ...labelFacts(node, onMap, columns),
    ),
    make("p", { class: "soft", id: "node-role" }, "Its role: ", lowered(facts.roles[map.role[node]].summary)),
    onMap ? null : make("p", { class: "note" }, `Not among the ${count(facts.shown)} nodes on the map; `, make("code", {}, "rae similar"), " lists its nearest nodes."),
    onMap ? memberships(node, page) : null,
    onMap ? nearest(node, page) : null,
    around(node, page),
    onMap ? features(node, page) : null,
  ];
}

const lowered = (sentence) => sentence.slice(0, 1).toLowerCase() + sentence.slice(1);

function labelFacts(node, onMap, columns) {
  if (!onMap) return [];
  return columns.list.flatMap((column, i) => {
    if (column.group !== "label") return [];
    const value = columns.value(i, columns.codes(i)[node]);
    return value === null ? [] : [make("span", {}, `${column.name}: `, named(typeof value === "number" ? number(value) : value))];
  });
}

function memberships(node, { facts, near, dark }) {
  const wide = facts.roles.length;
  const shares = Array.from(near.membership.subarray(node * wide, (node + 1) * wide), (v, role) => [role, v / 255]);
  shares.sort(([a, x], [b, y]) => y - x || a - b);
  return make(
    "section",
    {},
    make("h3", {}, "Memberships"),
    make(
      "div",
      { class: "members" },
      shares.slice(0, LISTED).map(([role, share]) =>
        make(
          "div",
          { class: "row" },
          roleSign(role, dark),
          make("span", { class: "meter" }, make("span", { style: { width: `${100 * share}%`, background: colorOf(role, dark) } })),
          make("span", { class: "value" }, percent(share)),
        ),
      ),
    ),
  );
}

function nearest(node, { facts, near, map, ids, dark, tell }) {
  const rows = [];
  for (let at = node * facts.nearest; at < (node + 1) * facts.nearest; at++) {
    const other = near.index[at];
    if (other >= facts.shown) break;
    rows.push(
      make(
        "li",
        {},
        make("button", { class: "line", "data-node": other, onclick: () => tell.open(other) }, roleDot(map.role[other], dark), named(ids.of(other)), make("span", { class: "value" }, (near.distance[at] / 10000).toFixed(3))),
      ),
    );
  }
  return make("section", {}, make("h3", { title: facts.rules.nearest }, "Most alike ", make("small", {}, "distance")), make("ol", { class: "lines", id: "nearest" }, rows));
}

function roleDot(role, dark) {
  const sign = roleSign(role, dark);
  sign.lastChild.replaceWith(`${role}`);
  return sign;
}

function around(node, { facts, graph, map, ids, dark, tell }) {
  if (!map.degree[node]) return make("section", {}, make("h3", {}, "Two hops around it"), make("p", { class: "soft" }, "It has no neighbours."));
  const { drawing, first, known } = neighborhood(node, { around: graph.around, role: map.role, ids, dark, open: tell.open });
  const part = first.length < map.degree[node];
  return make(
    "section",
    {},
    make("h3", {}, "Two hops around it"),
    drawing,
    make("p", { class: "soft" }, part ? `${count(first.length)} of its ${count(map.degree[node])} neighbours are drawn, evenly spaced through their list${known < map.degree[node] ? `; the page keeps ${count(known)} of them` : ""}. ` : "All its neighbours are drawn. ", facts.rules.around),
    make(
      "details",
      {},
      make("summary", {}, `Neighbours by name`),
      make("ul", { class: "lines" }, first.map((other) => make("li", {}, make("button", { class: "line", "data-node": other, onclick: () => tell.open(other) }, roleDot(map.role[other], dark), named(ids.of(other)))))),
    ),
  );
}

function features(node, { columns, tell }) {
  const { total, first } = columns.ofNode(node, 24);
  if (!total) return null;
  return make(
    "section",
    {},
    make("h3", {}, "Features ", make("small", {}, total > first.length ? `the ${first.length} rarest of ${count(total)}` : "")),
    make(
      "p",
      { class: "names" },
      first.map(({ column, value }) =>
        make("button", { class: "name", title: `${number(value)}; click to colour the map by it`, onclick: () => tell.color(column) }, named(columns.list[column].name)),
      ),
    ),
  );
}
