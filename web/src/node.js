// One node: its role, how sure that is, what it is like, who is most like it, and what is around it.
import { count, counted, make, named, number, percent } from "./dom.js";
import { roleSign } from "./glyph.js";
import { neighborhood } from "./neighborhood.js";
import { colorOf } from "./palette.js";

const LISTED = 5; // roles with a membership bar
const FEW_EQUALS = 6; // nodes with the same vector that are listed at once
const MOST_EQUALS = 300; // and behind a click

export function nodePanel(node, page) {
  const { facts, names, map, dark, columns } = page;
  const onMap = node < facts.shown;
  return [
    make("h2", { tabindex: -1, id: "node-name" }, named(names.of(node))),
    names.of(node) === names.id(node) ? null : make("p", { class: "soft", id: "node-id" }, "id ", named(names.id(node))),
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
    onMap ? equals(node, page) : null,
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

function memberships(node, { facts, near, groups, dark }) {
  const [wide, mark] = [facts.roles.length, groups.of(node)];
  const shares = Array.from(near.membership.subarray(mark * wide, (mark + 1) * wide), (v, role) => [role, v / 255]);
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

/** The other nodes with the same vector. */
function equals(node, { groups, map, names, dark, tell }) {
  const others = Array.from(groups.nodes(groups.of(node))).filter((other) => other !== node);
  if (!others.length) return null;
  const first = others.slice(0, MOST_EQUALS);
  return make(
    "section",
    { id: "equals" },
    make("h3", {}, `Same vector `, make("small", {}, `${counted(others.length, "other node")} on this mark`)),
    make(
      "details",
      { open: others.length <= FEW_EQUALS },
      make("summary", {}, others.length <= FEW_EQUALS ? "Who they are" : `All ${count(others.length)}`),
      make("ul", { class: "lines" }, first.map((other) => line(other, { map, names, dark, tell }))),
      first.length < others.length ? make("p", { class: "soft" }, `and ${count(others.length - first.length)} more; CSV saves all`) : null,
    ),
  );
}

/** A node as a line of a list that opens it. */
function line(node, { map, names, dark, tell }, ...more) {
  return make("li", {}, make("button", { class: "line", "data-node": node, onclick: () => tell.open(node) }, roleDot(map.role[node], dark), make("span", { class: "who" }, names.shown(node)), ...more));
}

function nearest(node, page) {
  const list = make("ol", { class: "lines", id: "nearest" });
  const note = make("p", { class: "soft" });
  const show = () => {
    list.replaceChildren(...alikeLines(node, page));
    const { changed } = page.alike;
    note.replaceChildren(...(changed.length ? ["By weights of your own, computed here. All nodes: ", make("code", {}, `rae similar --weights ${page.alike.blocks.map(({ name }, i) => `${name}=${short(page.alike.weights[i])}`).join(",")}`)] : []));
    note.hidden = !changed.length;
  };
  show();
  return make(
    "section",
    {},
    make("h3", { title: page.facts.rules.nearest }, "Most alike ", make("small", {}, "distance")),
    list,
    note,
    page.facts.blocks.length ? weighing(page, show) : null,
  );
}

function alikeLines(node, page) {
  const found = page.alike.of(page.groups.of(node));
  if (!found.length) return [make("li", { class: "soft" }, page.alike.changed.length ? "Every weight is 0: nothing to compare." : "There is no other vector.")];
  return found.map(({ mark, distance }) => {
    const more = page.groups.count(mark) - 1;
    return line(page.groups.face(mark), page, more ? make("small", { class: "more", title: `${counted(more, "other node")} with the same vector` }, `+${count(more)}`) : null, make("span", { class: "value" }, distance.toFixed(3)));
  });
}

const short = (weight) => String(Number(weight.toFixed(3)));

/** A slider for each block of the vectors; the list follows at once. */
function weighing(page, show) {
  const { alike, tell, facts } = page;
  const rows = alike.blocks.map(({ name, about, top, tick }, i) => {
    const value = make("output", { class: "value" }, short(alike.weights[i]));
    const slider = make("input", {
      type: "range", min: 0, max: top, step: tick, value: alike.weights[i], "data-block": name, "aria-label": `Weight of ${name}${about ? `: ${about}` : ""}`,
      oninput: () => {
        alike.weights[i] = Number(slider.value);
        value.textContent = short(alike.weights[i]);
        show();
        reset.disabled = !alike.changed.length;
        tell.weighed();
      },
    });
    return { i, value, slider, row: make("label", { class: "row", title: about || null }, make("span", {}, named(name)), slider, value) };
  });
  const reset = make("button", {
    class: "name", id: "weights-reset", disabled: !alike.changed.length,
    onclick: () => {
      alike.reset();
      for (const { i, value, slider } of rows) {
        slider.value = alike.weights[i];
        value.textContent = short(alike.weights[i]);
      }
      show();
      reset.disabled = true;
      tell.weighed();
    },
  }, "Back to the weights of the roles");
  return make(
    "details",
    { class: "weights", open: page.weighing || alike.changed.length > 0, ontoggle: ({ target }) => (page.weighing = target.open) },
    make("summary", {}, "Weigh the blocks of the vectors"),
    rows.map(({ row }) => row),
    make("p", {}, reset),
    make("p", { class: "soft" }, facts.rules.weights),
  );
}

function roleDot(role, dark) {
  const sign = roleSign(role, dark);
  sign.lastChild.replaceWith(`${role}`);
  return sign;
}

function around(node, { facts, graph, map, names, dark, tell }) {
  if (!map.degree[node]) return make("section", {}, make("h3", {}, "Two hops around it"), make("p", { class: "soft" }, "It has no neighbours."));
  const { drawing, first, known } = neighborhood(node, { around: graph.around, role: map.role, names, dark, open: tell.open });
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
      make("ul", { class: "lines" }, first.map((other) => line(other, { map, names, dark, tell }))),
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
