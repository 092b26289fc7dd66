// What this page was made from: counts, rules, the training curve, settings.
import { count, draw, make, number } from "./dom.js";

export function aboutRun({ facts }) {
  return [
    make("p", {}, "Every node of the graph has a vector. Nodes with similar roles have vectors that are close to each other, and lie near each other on the map; the axes mean nothing."),
    make("dl", { class: "counts" }, facts.counts.map(([name, n]) => make("div", {}, make("dt", {}, name), make("dd", {}, count(n))))),
    make("h3", {}, "How to read it"),
    make("ul", {}, Object.values(facts.rules).map((rule) => make("li", {}, rule))),
    make("h3", {}, "Keys"),
    make(
      "dl",
      { class: "keys" },
      [
        ["/", "search for a name or id"],
        ["arrows, + and −, Home", "on the map: move, zoom, the whole map"],
        ["Enter", "on the map: open the node nearest its centre"],
        ["0 to 9", "light a role up"],
        ["Shift + drag", "select the nodes in a box"],
        ["Esc", "clear the selection"],
      ].map(([key, what]) => make("div", {}, make("dt", {}, make("kbd", {}, key)), make("dd", {}, what))),
    ),
    make("h3", {}, "Training"),
    facts.training.length ? curves(facts.training) : make("p", {}, "None: these vectors were computed without training."),
    make("h3", {}, "Settings"),
    make("p", { class: "settings" }, facts.settings.map(([name, value, changed]) => make("span", { class: changed ? "changed" : null }, `${name} ${value}`))),
    make("p", { class: "soft" }, facts.made),
  ];
}

/** The loss by step, one line a fit. */
function curves(fits) {
  const [left, right, top, bottom] = [54, 620, 14, 150];
  const all = fits.flatMap((fit) => fit.values);
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const last = Math.max(...fits.flatMap((fit) => fit.steps), 1);
  const x = (step) => left + ((right - left) * step) / last;
  const y = (value) => bottom - ((bottom - top) * (value - low)) / (high - low || 1);
  const text = (at, down, anchor, ...what) => draw("text", { x: at, y: down, "text-anchor": anchor }, ...what);
  return draw(
    "svg",
    { class: "curve", viewBox: "0 0 640 176", role: "img", "aria-label": "Loss by training step" },
    draw("path", { class: "axis", d: `M${left} ${top}V${bottom}H${right}` }),
    text(left - 6, top + 6, "end", number(high)),
    text(left - 6, bottom, "end", number(low)),
    text(left, bottom + 18, "start", "0"),
    text(right, bottom + 18, "end", `step ${count(last)}`),
    fits.map((fit, i) => [
      draw("polyline", { class: `line line${i}`, points: fit.steps.map((step, j) => `${x(step).toFixed(1)},${y(fit.values[j]).toFixed(1)}`).join(" ") }),
      draw("text", { class: `line${i}`, x: right, y: top + 6 + 16 * i, "text-anchor": "end" }, `${fit.loss} ${number(fit.values.at(-1))}`),
    ]).flat(),
  );
}
