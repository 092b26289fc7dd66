// Colours that people who see colours differently can tell apart (Okabe and Ito's, two more), and a shape each.
// A role has both: 8 colours and 6 shapes are 48 distinct marks, and every role carries its number besides.

const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#c4639a", "#c98a00", "#3aa0dc", "#7a4fa3", "#8a6d3b"];
const DARK = ["#4aa3e0", "#ff8b4d", "#35cfa2", "#eba0cd", "#f2bb45", "#8fd3fa", "#b99be6", "#cbb07c"];
const LOW_TO_HIGH = {
  light: ["#cfdde6", "#93c1cf", "#4b9fbe", "#2675a8", "#274b8a", "#1b2556"],
  dark: ["#2b3b50", "#2f6090", "#3c92b6", "#72c3bd", "#c3e4b0", "#fdf5b0"],
};
const NONE = { light: "#c9cdd4", dark: "#454c57" };

export const SHAPES = 6;
export const MARKS = LIGHT.length * SHAPES;

export const shapeOf = (i) => (i + Math.floor(i / 24)) % SHAPES;

export function colorOf(i, dark) {
  const colors = dark ? DARK : LIGHT;
  return colors[i % colors.length];
}

export const noColor = (dark) => NONE[dark ? "dark" : "light"];

/** The colour of a share between 0 and 1 on a scale whose lightness only rises, or only falls. */
export function scaleColor(share, dark) {
  const stops = LOW_TO_HIGH[dark ? "dark" : "light"];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const [a, b] = [rgb(stops[below]), rgb(stops[below + 1])];
  return hex(a.map((v, i) => Math.round(v + (b[i] - v) * (place - below))));
}

export const rgb = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

export const hex = (parts) => `#${parts.map((v) => v.toString(16).padStart(2, "0")).join("")}`;

/** The outline of shape `s` with radius r around 0, 0: disc, square, triangle, diamond, plus, triangle down. */
export function outline(s, r) {
  const at = (...points) => `M${points.map(([x, y]) => `${(x * r).toFixed(2)} ${(y * r).toFixed(2)}`).join("L")}Z`;
  switch (s) {
    case 1:
      return at([-0.84, -0.84], [0.84, -0.84], [0.84, 0.84], [-0.84, 0.84]);
    case 2:
      return at([0, -1.08], [1, 0.76], [-1, 0.76]);
    case 3:
      return at([0, -1.18], [1.18, 0], [0, 1.18], [-1.18, 0]);
    case 4:
      return at(
        [-0.36, -1.05], [0.36, -1.05], [0.36, -0.36], [1.05, -0.36], [1.05, 0.36], [0.36, 0.36],
        [0.36, 1.05], [-0.36, 1.05], [-0.36, 0.36], [-1.05, 0.36], [-1.05, -0.36], [-0.36, -0.36],
      );
    case 5:
      return at([0, 1.08], [1, -0.76], [-1, -0.76]);
    default:
      return `M${-r} 0A${r} ${r} 0 1 0 ${r} 0A${r} ${r} 0 1 0 ${-r} 0Z`;
  }
}
