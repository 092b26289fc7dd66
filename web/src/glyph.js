// A role's sign in the text: its shape in its colour, and its number.
import { draw, make } from "./dom.js";
import { colorOf, outline, shapeOf } from "./palette.js";

export const glyph = (color, shape, size = 12) =>
  draw(
    "svg",
    { class: "glyph", width: size, height: size, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
    draw("path", { d: outline(shape, 5), fill: color }),
  );

export const roleSign = (role, dark) =>
  make("span", { class: "sign" }, glyph(colorOf(role, dark), shapeOf(role)), `Role ${role}`);
