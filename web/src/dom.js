// Elements made from plain text only: no string ever becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** make("p", { class: "soft" }, "text", child, ...): a handler for on*, a property for known ones, else an attribute. */
export function make(tag, traits = {}, ...children) {
  return filled(document.createElement(tag), traits, children);
}

export function draw(tag, traits = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), traits, children);
}

function filled(element, traits, children) {
  for (const [name, value] of Object.entries(traits)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [rule, set] of Object.entries(value)) element.style.setProperty(rule, set);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export const byId = (id) => document.getElementById(id);

/** A name of the user's, kept apart from the direction of the text around it. */
export const named = (text) => make("bdi", {}, text === "" ? "(empty)" : text);

export const count = (n) => n.toLocaleString("en");

export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export const percent = (share) => (share > 0 && share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);

export function number(value) {
  if (!Number.isFinite(value)) return "none";
  if (value === Math.round(value) && Math.abs(value) < 1e6) return count(value);
  return Math.abs(value) >= 1e6 || Math.abs(value) < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}
