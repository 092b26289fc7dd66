// The two-hop neighbourhood of a node as a small drawing; layout by d3-force, the same every time.
import { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation } from "d3-force";
import { draw, count } from "./dom.js";
import { shortened } from "./labels.js";
import { colorOf, noColor, outline, shapeOf } from "./palette.js";

const FIRST = 24; // neighbours drawn at most
const SECOND = 60; // and nodes behind them
const WIDE = 380;
const HIGH = 300;

/** Up to `most` of a list, evenly spaced. */
export const spread = (list, most) =>
  list.length <= most ? [...list] : Array.from({ length: most }, (_, i) => list[Math.floor(((i + 0.5) * list.length) / most)]);

/** Who is drawn, with hops from `ego`, and which edges; `around(node)` are the neighbours that the page knows. */
export function chosen(ego, around) {
  const known = [...around(ego)];
  const hops = new Map([[ego, 0]]);
  for (const node of spread(known, FIRST)) hops.set(node, 1);
  const first = [...hops.keys()].slice(1);
  const each = Math.max(1, Math.floor(SECOND / Math.max(first.length, 1)));
  for (const node of first) {
    const beyond = [...around(node)].filter((other) => !hops.has(other));
    for (const other of spread(beyond, each)) hops.set(other, 2);
  }
  const edges = new Map();
  for (const node of hops.keys()) {
    for (const other of around(node)) {
      if (hops.has(other)) edges.set(node < other ? `${node} ${other}` : `${other} ${node}`, [node, other]);
    }
  }
  return { hops, edges: [...edges.values()], known: known.length };
}

export function neighborhood(ego, { around, role, names, dark, open }) {
  const { hops, edges, known } = chosen(ego, around);
  const nodes = [...hops].map(([node, hop], i) => {
    const turn = i * 2.399963; // the golden angle: a start without luck
    return { node, hop, x: hop * 55 * Math.cos(turn), y: hop * 55 * Math.sin(turn) };
  });
  const place = new Map(nodes.map((n) => [n.node, n]));
  nodes[0].fx = nodes[0].fy = 0;
  const links = edges.map(([a, b]) => ({ source: place.get(a), target: place.get(b) }));
  forceSimulation(nodes)
    .force("link", forceLink(links).distance(50).strength(({ source, target }) => (source.hop === target.hop ? 0.01 : 0.08)))
    .force("apart", forceManyBody().strength((n) => (n.hop === 1 ? -90 : -30)))
    .force("ring", forceRadial((n) => [0, 84, 142][n.hop], 0, 0).strength(1.2))
    .force("room", forceCollide((n) => (n.hop === 1 ? 11 : 7)))
    .stop()
    .tick(300);
  fitted(nodes);
  const drawing = draw(
    "svg",
    { class: "neighborhood", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": `Two-hop neighbourhood: ${count(nodes.length)} nodes, ${count(edges.length)} edges drawn` },
    [false, true].map((near) => links.filter((l) => isNear(l) === near).map(line)),
    [...nodes].reverse().map((n) => mark(n, { role, names, dark, open })),
    written(nodes, names),
  );
  return { drawing, first: [...hops].filter(([, hop]) => hop === 1).map(([node]) => node), drawn: nodes.length, known };
}

const r1 = (value) => value.toFixed(1);

const isNear = ({ source, target }) => source.hop + target.hop === 1;

const line = (link) =>
  draw("line", {
    class: isNear(link) ? "edge near" : "edge",
    x1: r1(link.source.x),
    y1: r1(link.source.y),
    x2: r1(link.target.x),
    y2: r1(link.target.y),
  });

function fitted(nodes) {
  const [xs, ys] = [nodes.map((n) => n.x), nodes.map((n) => n.y)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const [across, down] = [(WIDE - 56) / Math.max(right - left, 1), (HIGH - 48) / Math.max(bottom - top, 1)];
  const tall = Math.min(down, 1.5);
  const wide = Math.min(across, 1.35 * tall); // the panel is wider than high
  for (const n of nodes) {
    n.x = WIDE / 2 + (n.x - (left + right) / 2) * wide;
    n.y = HIGH / 2 - 4 + (n.y - (top + bottom) / 2) * tall;
  }
}

function mark({ node, hop, x, y }, { role, names, dark, open }) {
  const r = role[node];
  const color = r === undefined ? noColor(dark) : colorOf(r, dark);
  const said = `${names.said(node)}, role ${r}${hop ? `, ${hop} ${hop === 1 ? "hop" : "hops"} away` : ", the chosen node"}`;
  return draw(
    "g",
    { class: `node hop${hop}`, transform: `translate(${r1(x)} ${r1(y)})`, role: "button", tabindex: -1, "aria-label": said, "data-node": node, onclick: () => open(node) },
    draw("circle", { class: "reach", r: 10 }),
    hop ? null : draw("circle", { class: "ring", r: 12 }),
    draw("path", { d: outline(shapeOf(r ?? 0), [8, 5.6, 3.8][hop]), fill: color }),
    draw("title", {}, said),
  );
}

/** Names of the chosen node and its neighbours, where they cover no other name. */
function written(nodes, names) {
  const taken = [];
  return nodes
    .filter((n) => n.hop < 2)
    .map(({ node, hop, x, y }) => {
      const text = shortened(names.of(node), hop ? 18 : 30);
      const half = text.length * (hop ? 2.9 : 3.5);
      const at = Math.min(Math.max(x, half + 2), WIDE - half - 2);
      const down = y + (hop ? 17 : 25);
      const box = [at - half, down - 9, at + half, down + 3];
      if (hop && taken.some((t) => box[0] < t[2] && t[0] < box[2] && box[1] < t[3] && t[1] < box[3])) return null;
      taken.push(box);
      return draw("text", { class: `hop${hop}`, x: r1(at), y: r1(Math.min(down, HIGH - 3)) }, text);
    });
}
