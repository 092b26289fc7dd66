// The page: reads the data, keeps what is chosen, and lets map, cards and panels speak to each other.
import { aboutRun } from "./about.js";
import { Alike } from "./alike.js";
import { roleCard } from "./cards.js";
import { Columns, lookOf } from "./columns.js";
import { combobox } from "./combobox.js";
import { facts as readFacts, part, starts } from "./data.js";
import { byId, count, counted, make, named, number } from "./dom.js";
import { csv, fileName, save } from "./files.js";
import { FlatMap } from "./flatmap.js";
import { GLMap, hasWebGL } from "./glmap.js";
import { glyph, roleSign } from "./glyph.js";
import { Groups } from "./groups.js";
import { badge, shortened, tally, write } from "./labels.js";
import { fragmentOf, stateOf } from "./link.js";
import { Names } from "./names.js";
import { nodePanel } from "./node.js";
import { colorOf, outline } from "./palette.js";

// `selected` is a node, `hovered` a mark; `lit` says which marks are lit, and by what.
const page = { facts: readFacts(), lit: null, selected: null, hovered: null, choice: "role" };
const LINK_AFTER = 500; // milliseconds after the last change; browsers allow about three changes of an address a second
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

// ------------------------------------------------------------------------------------- start

async function start() {
  theme(remembered("rae-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  const { facts } = page;
  byId("subtitle").textContent = `${counted(facts.nodes, "node")} · ${counted(facts.edges, "edge")} · ${counted(facts.roles.length, "role")}${facts.shown < facts.nodes ? ` · ${count(facts.shown)} on the map` : ""}`;
  byId("hint-text").textContent = `Each mark is ${facts.thing}; near ones have similar roles. Click one, click a role, or press / to search.`;
  byId("hint").hidden = remembered("rae-hint") === "seen";

  const [map, ids, names, near, vectors, graph, columns] = await Promise.all(["map", "ids", "names", "near", "vectors", "graph", "columns"].map(part));
  page.map = map;
  page.names = new Names(ids, names);
  page.groups = new Groups(map.mark, facts.marks, facts.roles.flatMap((card) => card.prototypes));
  page.near = near;
  page.alike = new Alike(facts, near, vectors);
  page.columns = new Columns(facts.columns, columns, facts.shown);
  const at = starts(graph.kept);
  page.graph = { around: (node) => graph.around.subarray(at[node], at[node + 1]) };
  page.points = { x: Float32Array.from(map.x, (v) => v / 65535), y: Float32Array.from(map.y, (v) => v / 65535) };
  page.typical = new Set(facts.roles.flatMap((card) => card.prototypes.map((node) => page.groups.of(node))));
  page.middle = facts.roles.map((_, role) => middleOf(role));
  const busy = Uint32Array.from({ length: facts.marks }, (_, i) => map.degree[page.groups.face(i)]);
  page.busiest = [...busy.keys()].sort((a, b) => busy[b] - busy[a] || a - b);
  page.several = [...busy.keys()].filter((i) => page.groups.count(i) > 1).sort((a, b) => page.groups.count(b) - page.groups.count(a));
  page.tell = { light, open: (node) => open(node), color: chooseColumn, weighed: annotate };

  page.unit = unit();
  new ResizeObserver(() => {
    const before = page.unit;
    page.unit = unit();
    if (page.unit !== before) page.view?.restyle();
  }).observe(byId("stage"));
  page.look = look();
  const Map = hasWebGL() ? GLMap : FlatMap;
  page.view = new Map(byId("stage"), page.points, styleOf, { onFrame: annotate, calm });
  document.documentElement.dataset.drawing = Map === GLMap ? "webgl" : "canvas";
  choices();
  repaint();
  wire();
  byId("about-text").replaceChildren(...aboutRun(page));
  restore();
  window.addEventListener("hashchange", restore);
  window.raePage = Object.assign(page, { place, styleOf }); // for the curious, and for the tests
  document.documentElement.dataset.ready = "yes";
}

/** The role of a mark. */
const roleOf = (mark) => page.map.role[page.groups.face(mark)];

/** The mark of a role that lies nearest the middle of its marks on the map. */
function middleOf(role) {
  const { x, y } = page.points;
  const members = [...x.keys()].filter((i) => roleOf(i) === role);
  if (!members.length) return null;
  const half = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  const [mx, my] = [half(members.map((i) => x[i])), half(members.map((i) => y[i]))];
  return members.reduce((best, i) => ((x[i] - mx) ** 2 + (y[i] - my) ** 2 < (x[best] - mx) ** 2 + (y[best] - my) ** 2 ? i : best));
}

// ------------------------------------------------------------------------------------- look

const look = () => lookOf(page.choice, { columns: page.columns, role: page.map.role, roles: page.facts.roles, groups: page.groups, dark: page.dark });

const chosenMark = () => (page.selected !== null && page.selected < page.facts.shown ? page.groups.of(page.selected) : null);

/** The radius of a mark of one node, in pixels: small where there are many, or little room. */
function unit() {
  const room = Math.min(Math.max(byId("stage").clientWidth / 900, 0.3), 1);
  return Math.min(Math.max(150 / Math.sqrt(page.facts.marks), 1.8), 5) * Math.sqrt(room);
}

function styleOf(i) {
  const { color, shape, under } = page.look.mark(i);
  const lit = !page.lit || page.lit.has(i);
  const chosen = i === chosenMark();
  const several = page.groups.count(i);
  const size = page.unit * (1 + 0.32 * Math.log2(several));
  return {
    color,
    shape,
    alpha: lit || chosen ? (under ? 0.5 : 0.86) : 0.07,
    size: size * (several > 1 ? 1 : chosen ? 1.9 : page.typical.has(i) ? 1.35 : 1),
    z: chosen ? 4 : !lit || under ? 0 : several > 1 ? 1 : page.typical.has(i) ? 3 : 2, // large ones under small ones
  };
}

/** Marks, cards, legend and panel anew: after the colours or the theme have changed. */
function repaint() {
  const { facts, names, columns, dark, tell } = page;
  page.look = look();
  page.view.restyle();
  const sampled = facts.shown < facts.nodes ? [make("p", { class: "note", id: "sample" }, facts.rules.sample)] : [];
  const intro = make("p", { class: "soft" }, facts.rules.roles);
  byId("roles").replaceChildren(...sampled, intro, ...facts.roles.map((card, role) => roleCard(card, role, { dark, nodes: facts.nodes, names, columns, tell })));
  showLit();
  legend();
  if (page.selected !== null) byId("node").replaceChildren(...nodePanel(page.selected, page).filter(Boolean));
  else byId("node").replaceChildren(make("p", { class: "soft" }, "Click a mark on the map, or press / and type a name."));
}

function theme(name) {
  page.dark = name === "dark";
  document.documentElement.dataset.theme = name;
  const style = getComputedStyle(document.documentElement);
  page.ink = style.getPropertyValue("--ink").trim();
  page.ground = style.getPropertyValue("--ground").trim();
}

/** What stands over the marks: role numbers and names. */
function annotate() {
  const stage = byId("stage");
  const canvas = byId("over");
  const dots = window.devicePixelRatio || 1;
  const [wide, high] = [stage.clientWidth, stage.clientHeight];
  if (canvas.width !== Math.round(wide * dots) || canvas.height !== Math.round(high * dots)) {
    Object.assign(canvas, { width: Math.round(wide * dots), height: Math.round(high * dots) });
  }
  const brush = canvas.getContext("2d");
  brush.setTransform(dots, 0, 0, dots, 0, 0);
  brush.clearRect(0, 0, wide, high);
  if (!page.view) return;
  page.affine = page.view.affine(); // once per frame
  const { ink, ground, dark } = page;
  const taken = [];
  if (page.look.kind === "role" && page.view.zoom < 6) {
    page.middle.forEach((mark, role) => {
      if (mark === null || (page.litRole !== undefined && page.litRole !== role)) return;
      const { x, y } = spot(mark);
      const up = page.groups.count(mark) > 1 ? 13 + styleOf(mark).size * page.view.grown : 0; // beside the count
      taken.push(badge(brush, { x, y: y - up, text: `${role}`, color: colorOf(role, dark), ground }));
    });
  }
  counts(brush, wide, high, taken);
  if (chosenMark() !== null) ring(brush, chosenMark());
  write(brush, wanted(wide, high), { wide, high, ink, ground, taken });
  page.affine = null;
  keepLink();
}

/** How many nodes a mark stands for, where the number fits. */
function counts(brush, wide, high, taken) {
  for (const mark of page.several.slice(0, 500)) {
    const { x, y } = spot(mark);
    if (x < 0 || y < 0 || x > wide || y > high || (page.lit && !page.lit.has(mark))) continue;
    tally(brush, { x, y, text: count(page.groups.count(mark)), radius: styleOf(mark).size * page.view.grown, ground: page.ground, taken });
  }
}

function ring(brush, mark) {
  const { x, y } = spot(mark);
  brush.beginPath();
  brush.arc(x, y, Math.max(14, 6 + 1.2 * styleOf(mark).size * page.view.grown), 0, 2 * Math.PI);
  brush.lineWidth = 2;
  brush.strokeStyle = page.ink;
  brush.stroke();
}

/** The names worth writing now, most important first. */
function wanted(wide, high) {
  const { facts, groups, names } = page;
  const label = (mark, more = {}) => {
    const others = groups.count(mark) - 1;
    const gap = 3 + styleOf(mark).size * page.view.grown;
    return { mark, ...spot(mark), gap, text: `${shortened(names.of(groups.face(mark)))}${others ? ` +${count(others)}` : ""}`, ...more };
  };
  const out = [];
  if (page.hovered !== null) {
    const others = groups.count(page.hovered) - 1;
    const text = shortened(names.said(groups.face(page.hovered)), 60);
    out.push(label(page.hovered, { strong: true, must: true, text: others ? `${text} and ${count(others)} with the same vector` : text }));
  }
  const chosen = chosenMark();
  if (chosen !== null) {
    out.push(label(chosen, { strong: true, must: true, gap: 9 + styleOf(chosen).size * page.view.grown, text: shortened(names.of(page.selected)) }));
    for (const { mark } of page.alike.of(chosen)) out.push(label(mark));
  }
  const lit = (mark) => !page.lit || page.lit.has(mark);
  for (let rank = 0; rank < 8; rank++) {
    for (const card of facts.roles) {
      const node = card.prototypes[rank];
      if (node !== undefined && lit(groups.of(node))) out.push(label(groups.of(node)));
    }
  }
  const most = page.view.zoom > 2 || page.lit ? 220 : 40;
  let listed = 0;
  for (const mark of page.busiest) {
    if (listed >= most) break;
    if (!lit(mark)) continue;
    const { x, y } = spot(mark);
    if (x < 0 || y < 0 || x > wide || y > high) continue;
    out.push(label(mark));
    listed++;
  }
  const seen = new Set();
  return out.filter(({ mark }) => !seen.has(mark) && seen.add(mark));
}

/** Where a mark is on the stage, and a node. */
const spot = (mark) => {
  const { scale, left, bottom } = page.affine ?? page.view.affine();
  return { x: left + scale * page.points.x[mark], y: bottom - scale * page.points.y[mark] };
};

const place = (node) => spot(page.groups.of(node));

function legend() {
  const { look: seen, columns, choice, dark } = page;
  const name = choice === "role" ? null : make("span", { class: "label" }, named(columns.list[choice].name));
  if (seen.kind === "number") {
    const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => seen.at(share)).join(",");
    const { low, middle, high, quiet } = seen.scale;
    byId("legend").replaceChildren(
      name,
      make("span", { class: "scale" }, make("i", { style: { background: `linear-gradient(90deg,${stops})` } }), ...[low, middle, high].map((v) => make("b", {}, number(v)))),
      quiet ? make("span", { class: "label" }, "grey: 0") : "",
    );
    return;
  }
  const most = 14;
  const items = seen.legend.slice(0, seen.kind === "role" ? seen.legend.length : most).map(({ text, color, shape, role }) =>
    role === undefined
      ? make("span", { class: "item" }, glyph(color, shape, 13), named(text))
      : make("button", { class: "item", "data-light": role, "aria-pressed": "false", title: page.facts.roles[role].summary, "aria-label": `Role ${text}`, onclick: () => light(role) }, glyph(color, shape, 13), text),
  );
  if (items.length < seen.legend.length) items.push(make("span", { class: "label" }, `and ${seen.legend.length - items.length} more`));
  byId("legend").replaceChildren(...(name ? [name] : [make("span", { class: "label" }, "role")]), ...items);
  showLit();
}

// ------------------------------------------------------------------------------------- choosing

function open(node, { move = true, focus = true } = {}) {
  page.selected = node;
  byId("node").replaceChildren(...nodePanel(node, page).filter(Boolean));
  byId("node").scrollTop = 0;
  showTab("node");
  page.view.restyle();
  const mark = chosenMark();
  if (move && mark !== null && !inView(mark)) page.view.moveTo(page.points.x[mark], page.points.y[mark], Math.max(page.view.zoom, 2.5));
  if (focus) byId("node-name").focus({ preventScroll: true });
  showLit();
  say(`${page.names.said(node)}, role ${page.map.role[node]}`);
}

function inView(mark) {
  const { x, y } = spot(mark);
  const { clientWidth: wide, clientHeight: high } = byId("stage");
  return x > 30 && y > 30 && x < wide - 30 && y < high - 30;
}

/** Light the members of a role up, or all nodes again if it was lit. */
function light(role) {
  const off = page.litRole === role;
  const { map, facts } = page;
  page.litRole = off ? undefined : role;
  page.lit = off ? null : { has: (mark) => roleOf(mark) === role, name: `role-${role}`, nodes: () => everyNode((i) => map.role[i] === role) };
  page.view.restyle();
  showLit();
  say(off ? "All nodes" : `Role ${role}: ${facts.roles[role].summary}`);
}

const everyNode = (test) => [...page.map.role.keys()].filter(test);

/** Light up what lies in a box of the map: [left, bottom, right, top] in its own units. */
function chooseBox(box) {
  const { x, y } = page.points;
  const [left, bottom, right, top] = box;
  const inside = (mark) => x[mark] >= left && x[mark] <= right && y[mark] >= bottom && y[mark] <= top;
  const nodes = [...x.keys()].filter(inside).flatMap((mark) => [...page.groups.nodes(mark)]);
  page.litRole = undefined;
  page.lit = nodes.length ? { has: inside, name: "selection", nodes: () => nodes, box } : null;
  page.view.restyle();
  showLit();
  say(`${counted(nodes.length, "node")} selected`);
}

function clear() {
  page.lit = page.selected = null;
  page.litRole = undefined;
  showTab("roles");
  repaint();
  say("Nothing selected");
}

function showLit() {
  for (const button of document.querySelectorAll("[data-light]")) {
    const on = Number(button.dataset.light) === page.litRole;
    button.setAttribute("aria-pressed", String(on));
    button.closest(".card")?.classList.toggle("lit", on);
  }
  const { name, nodes } = selection();
  byId("csv").title = `Save ${name} (${counted(nodes.length, "node")}) as a CSV table`;
  byId("csv").textContent = `CSV · ${count(nodes.length)}`;
}

/** What the CSV holds: the lit nodes, else the chosen node, its equals and those most like it, else all on the map. */
function selection() {
  if (page.lit) return { name: page.lit.name, nodes: page.lit.nodes() };
  if (page.selected !== null) {
    const mark = chosenMark();
    const marks = mark === null ? [] : [mark, ...page.alike.of(mark).map((found) => found.mark)];
    return { name: "node-and-most-alike", nodes: [...new Set([page.selected, ...marks.flatMap((m) => [...page.groups.nodes(m)])])] };
  }
  return { name: "map", nodes: Array.from({ length: page.facts.shown }, (_, i) => i) };
}

function showTab(name) {
  for (const which of ["roles", "node"]) {
    const on = which === name;
    byId(which).hidden = !on;
    byId(`tab-${which}`).setAttribute("aria-selected", String(on));
    byId(`tab-${which}`).tabIndex = on ? 0 : -1;
  }
}

function choices() {
  const { columns, facts } = page;
  const select = byId("color");
  const onCards = new Set(facts.roles.flatMap((card) => card.features.map((f) => f.column)).filter((c) => c !== null));
  const features = columns.list.flatMap((column, i) => (column.group === "feature" && !columns.isLabel(column.name) ? [i] : []));
  const listed = features.length <= 40 ? features : features.filter((i) => onCards.has(i)).slice(0, 60);
  const group = (label, items) =>
    items.length ? make("optgroup", { label }, items.map((i) => make("option", { value: i }, columns.list[i].name))) : null;
  const of = (name) => columns.list.flatMap((column, i) => (column.group === name ? [i] : []));
  select.replaceChildren(
    make("option", { value: "role" }, "role"),
    ...of("node").map((i) => make("option", { value: i }, columns.list[i].name)),
    ...[group("labels", of("label")), group(listed.length < features.length ? "features of the cards" : "features", listed)].filter(Boolean),
    ...(listed.length < features.length ? [make("option", { value: "find" }, "another feature…")] : []),
  );
}

function chooseColumn(choice) {
  page.choice = choice;
  const select = byId("color");
  if (![...select.options].some((option) => option.value === String(choice))) {
    const { name } = page.columns.list[choice];
    select.append(make("option", { value: choice }, page.columns.isLabel(name) ? `${name} (feature)` : name));
  }
  select.value = choice;
  byId("feature-field").hidden = true;
  page.look = look();
  page.view.restyle();
  legend();
  say(`Coloured by ${choice === "role" ? "role" : page.columns.list[choice].name}`);
}

// ------------------------------------------------------------------------------------- hands

function wire() {
  const stage = byId("stage");
  combobox(byId("search"), byId("hits"), {
    find: (text) => page.names.find(text),
    row: (node) => [roleSign(page.map.role[node], page.dark), make("span", { class: "who" }, page.names.shown(node)), node < page.facts.shown ? "" : make("small", {}, "not on the map")],
    take: (node) => {
      byId("search").value = page.names.of(node);
      open(node);
    },
    none: (text) => `${page.names.given ? "No name or id" : "No id"} contains ${shortened(text, 20)}`,
  });
  const names = page.columns.list.map((column) => column.name.toLowerCase());
  combobox(byId("feature"), byId("features"), {
    find: (text) => matching(names, text.toLowerCase()),
    row: (i) => named(page.columns.list[i].name),
    take: chooseColumn,
    none: () => "No such feature",
  });
  byId("color").addEventListener("change", ({ target }) => {
    if (target.value !== "find") return chooseColumn(target.value === "role" ? "role" : Number(target.value));
    byId("feature-field").hidden = false;
    byId("feature").focus();
  });
  byId("link").hidden = location.protocol === "about:"; // inside a notebook there is no address to pass on
  byId("link").addEventListener("click", copyLink);
  byId("png").addEventListener("click", savePicture);
  byId("csv").addEventListener("click", saveTable);
  byId("theme").addEventListener("click", () => {
    theme(page.dark ? "light" : "dark");
    remember("rae-theme", page.dark ? "dark" : "light");
    repaint();
  });
  byId("about-open").addEventListener("click", () => byId("about").showModal());
  byId("hint-close").addEventListener("click", () => {
    byId("hint").hidden = true;
    remember("rae-hint", "seen");
  });
  byId("closer").addEventListener("click", () => page.view.zoomBy(1.6));
  byId("farther").addEventListener("click", () => page.view.zoomBy(1 / 1.6));
  byId("whole").addEventListener("click", () => page.view.fit());
  for (const name of ["roles", "node"]) byId(`tab-${name}`).addEventListener("click", () => showTab(name));
  byId("side").querySelector("[role=tablist]").addEventListener("keydown", ({ key }) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    const other = byId("node").hidden ? "node" : "roles";
    showTab(other);
    byId(`tab-${other}`).focus();
  });
  stage.addEventListener("keydown", onMapKey);
  document.addEventListener("keydown", onKey);
  pointing(stage);
}

/** Column numbers of features whose name begins with the text, then of those that contain it. */
function matching(names, text) {
  const of = page.columns.list;
  const hits = [...names.keys()].filter((i) => of[i].group === "feature" && names[i].includes(text));
  hits.sort((a, b) => names[b].startsWith(text) - names[a].startsWith(text) || names[a].length - names[b].length);
  return hits.slice(0, 12);
}

function onKey(event) {
  const typing = event.target.closest?.("input, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    byId("search").focus();
    byId("search").select();
  } else if (event.key === "Escape") clear();
  else if (/^[0-9]$/.test(event.key) && Number(event.key) < page.facts.roles.length) light(Number(event.key));
}

function onMapKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = 60;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
  if (moves[event.key]) page.view.panBy(...moves[event.key]);
  else if (event.key === "+" || event.key === "=") page.view.zoomBy(1.6);
  else if (event.key === "-") page.view.zoomBy(1 / 1.6);
  else if (event.key === "Home") page.view.fit();
  else if (event.key === "Enter") {
    const { clientWidth: wide, clientHeight: high } = byId("stage");
    openMark(nearTo(wide / 2, high / 2, Infinity));
  } else return;
  event.preventDefault();
  event.stopPropagation();
}

/** The mark nearest this place of the stage, none farther than `reach` pixels; a large one is hit on its whole area. */
function nearTo(px, py, reach = 14) {
  const { scale, left, bottom } = page.view.affine();
  const { x, y } = page.points;
  const lit = page.lit;
  let best = null;
  let least = reach * reach;
  for (let i = 0; i < x.length; i++) {
    const d = (left + scale * x[i] - px) ** 2 + (bottom - scale * y[i] - py) ** 2;
    if (d < least && (!lit || lit.has(i))) [best, least] = [i, d];
  }
  if (best !== null) return best;
  return page.several.find((i) => (left + scale * x[i] - px) ** 2 + (bottom - scale * y[i] - py) ** 2 < (styleOf(i).size * page.view.grown) ** 2 && (!lit || lit.has(i))) ?? null;
}

/** Open the node that a mark stands for; of several, the one that names it. */
function openMark(mark) {
  if (mark !== null) open(page.groups.face(mark), { move: false, focus: false });
}

function pointing(stage) {
  const at = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let down = null;
  let waiting = 0;
  stage.addEventListener("pointermove", (event) => {
    if (event.buttons || waiting) return;
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      const mark = nearTo(...at(event));
      stage.classList.toggle("hit", mark !== null);
      if (mark === page.hovered) return;
      page.hovered = mark;
      annotate();
    });
  });
  stage.addEventListener("pointerleave", () => {
    page.hovered = null;
    annotate();
  });
  stage.addEventListener("pointerdown", (event) => {
    down = at(event);
    if (event.shiftKey && event.button === 0) boxing(event, down, at);
  }, { capture: true });
  stage.addEventListener("mousedown", (event) => event.shiftKey && event.stopPropagation(), { capture: true });
  stage.addEventListener("click", (event) => {
    const [x, y] = at(event);
    if (event.shiftKey || (down && Math.hypot(x - down[0], y - down[1]) > 5)) return;
    openMark(nearTo(x, y));
  });
}

/** Shift and drag: what lies inside the box. */
function boxing(event, [x0, y0], at) {
  event.preventDefault();
  event.stopPropagation();
  const box = byId("box");
  const sides = (next) => {
    const [x, y] = at(next);
    return { left: Math.min(x, x0), top: Math.min(y, y0), right: Math.max(x, x0), bottom: Math.max(y, y0) };
  };
  const move = (next) => {
    const { left, top, right, bottom } = sides(next);
    box.hidden = false;
    Object.assign(box.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", (last) => {
    window.removeEventListener("pointermove", move);
    box.hidden = true;
    const { left, top, right, bottom } = sides(last);
    if (right - left < 4 && bottom - top < 4) return;
    const to = page.view.affine();
    chooseBox([(left - to.left) / to.scale, (to.bottom - bottom) / to.scale, (right - to.left) / to.scale, (to.bottom - top) / to.scale]);
  }, { once: true });
}

// ------------------------------------------------------------------------------------- saving

function savePicture() {
  const points = page.view.image();
  const over = byId("over");
  const foot = 34;
  const dots = window.devicePixelRatio || 1;
  const [wide, high] = [points.width, points.height];
  const canvas = make("canvas", { width: wide, height: high + foot * dots });
  const brush = canvas.getContext("2d");
  brush.fillStyle = page.ground;
  brush.fillRect(0, 0, canvas.width, canvas.height);
  brush.drawImage(points, 0, 0);
  brush.drawImage(over, 0, 0, wide, high);
  brush.setTransform(dots, 0, 0, dots, 0, high);
  caption(brush, wide / dots, foot);
  canvas.toBlob((blob) => save(blob, fileName(page.facts.title, "map.png")), "image/png");
}

/** One line under the picture: the title, and what the colours mean. */
function caption(brush, wide, foot) {
  const { look: seen, columns, choice } = page;
  brush.textBaseline = "middle";
  brush.fillStyle = page.ink;
  brush.font = "600 13px system-ui, sans-serif";
  let at = 14;
  const put = (text, room = 14) => {
    brush.fillText(text, at, foot / 2);
    at += brush.measureText(text).width + room;
  };
  put(shortened(page.facts.title, 60), 22);
  brush.font = "12px system-ui, sans-serif";
  put(choice === "role" ? "role" : shortened(columns.list[choice].name), 10);
  if (seen.kind === "number") {
    put(number(seen.scale.low), 6);
    for (let i = 0; i < 80; i++) {
      brush.fillStyle = seen.at(i / 79);
      brush.fillRect(at + i, foot / 2 - 5, 1.5, 10);
    }
    at += 88;
    brush.fillStyle = page.ink;
    return put(number(seen.scale.high));
  }
  for (const { text, color, shape } of seen.legend) {
    if (at > wide - 60) return put("…");
    brush.save();
    brush.translate(at + 5, foot / 2);
    brush.fillStyle = color;
    brush.fill(new Path2D(outline(shape, 5)));
    brush.restore();
    at += 14;
    put(shortened(text, 18), 12);
  }
}

function saveTable() {
  const { names, map, columns, choice, facts } = page;
  const { name, nodes } = selection();
  const codes = choice === "role" ? null : columns.codes(choice);
  const header = ["id", ...(names.given ? ["name"] : []), "role", "confidence", "degree", ...(codes ? [columns.list[choice].name] : [])];
  const rows = nodes.map((node) => [
    names.id(node),
    ...(names.given ? [names.of(node)] : []),
    map.role[node],
    Math.round((1000 * map.confidence[node]) / 255) / 1000,
    map.degree[node],
    ...(codes ? [node < facts.shown ? columns.value(choice, codes[node]) ?? "" : ""] : []),
  ]);
  save(new Blob([csv(header, rows)], { type: "text/csv;charset=utf-8" }), fileName(facts.title, `${name}.csv`));
  say(`${counted(nodes.length, "node")} saved`);
}

// ------------------------------------------------------------------------------------- the link to a view

/** The view now, with what differs from how the page opens. */
function state() {
  const { selected, litRole, lit, choice, columns, names, view, alike } = page;
  const { clientWidth: wide, clientHeight: high } = byId("stage");
  const { scale, left, bottom } = view.affine();
  const at = [(wide / 2 - left) / scale, (bottom - high / 2) / scale, view.zoom];
  return {
    node: selected === null ? null : names.id(selected),
    role: litRole ?? null,
    box: lit?.box,
    color: choice === "role" ? null : columns.key(choice),
    at: view.isWhole ? null : at,
    weights: alike.changed,
    show: selected !== null && byId("node").hidden ? "roles" : null,
  };
}

let waitingLink = 0;

function keepLink() {
  clearTimeout(waitingLink);
  if (document.documentElement.dataset.ready) waitingLink = setTimeout(setLink, LINK_AFTER);
}

/** Put the view into the address, without a step in the browser's history. */
function setLink() {
  clearTimeout(waitingLink);
  const fragment = fragmentOf(state());
  if (fragment === page.fragment) return;
  page.fragment = fragment;
  try {
    history.replaceState(null, "", fragment ? `#${fragment}` : location.href.split("#")[0]);
  } catch {
    // a page inside another page has no address of its own
  }
}

/** Show the view that the address asks for. What it names is looked up; what is not found is ignored. */
function restore() {
  const asked = stateOf(location.hash);
  if (!asked || location.hash === `#${page.fragment}`) return;
  const { facts, alike, columns, names, view } = page;
  alike.reset();
  for (const [name, weight] of asked.weights) alike.weigh(name, weight);
  chooseColumn(columns.called(asked.color) ?? "role");
  if (page.lit) chooseBox([1, 1, 0, 0]);
  if (asked.role !== null && asked.role < facts.roles.length) light(asked.role);
  else if (asked.box) chooseBox(asked.box);
  page.selected = null;
  const node = asked.node === null ? null : names.exactly(asked.node);
  if (node !== null) open(node, { move: !asked.at, focus: false });
  if (node === null || asked.show === "roles") showTab("roles");
  const [x, y, zoom] = asked.at ?? [];
  if (zoom > 0 && Math.abs(x) < 10 && Math.abs(y) < 10) view.moveTo(x, y, zoom, true);
  else if (!asked.at && node === null) view.fit();
}

async function copyLink() {
  setLink();
  const button = byId("link");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Link"), 2_000);
    say("The link to this view is on the clipboard");
  } catch {
    byId("address").value = location.href; // a browser that lends no clipboard to this page
    byId("share").showModal();
    byId("address").select();
  }
}

// ------------------------------------------------------------------------------------- memory and voice

function say(text) {
  byId("said").textContent = text;
}

function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // some browsers keep nothing for pages that are files
  }
}

function remember(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // the same
  }
}

start().catch((error) => {
  byId("hint").hidden = false;
  byId("hint-text").textContent = `This page could not be drawn: ${error.message}. It needs a browser of 2023 or newer.`;
  throw error;
});
