// Names on the map, written where there is room: the most wanted first, none over another.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const AROUND = [[1, 0], [-1, 0], [0, -1], [0, 1], [1, -1], [-1, -1], [1, 1], [-1, 1]];

export const shortened = (text, most = 30) => {
  const plain = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim() || "(empty)";
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
};

/**
 * Write `wanted` on the brush: {x, y, text, gap, color, strong, must} in CSS pixels, in order of importance.
 * `must` labels are written even where they cover another.
 */
export function write(brush, wanted, { wide, high, ink, ground, taken = [] }) {
  brush.textBaseline = "middle";
  brush.lineJoin = "round";
  for (const { x, y, text, gap = 6, color = ink, strong = false, must = false } of wanted) {
    if (x < 0 || y < 0 || x > wide || y > high) continue;
    const size = strong ? 13 : 12;
    brush.font = `${strong ? 600 : 500} ${size}px ${FONT}`;
    const long = brush.measureText(text).width;
    const boxes = AROUND.map(([dx, dy]) => {
      const left = dx > 0 ? x + gap : dx < 0 ? x - gap - long : x - long / 2;
      return { left: left - 3, top: y + dy * (gap + (dx ? 3 : size / 2)) - size / 2 - 2, wide: long + 6, high: size + 4 };
    });
    const inside = (b) => b.left >= 2 && b.top >= 2 && b.left + b.wide <= wide - 2 && b.top + b.high <= high - 2;
    const box = boxes.find((b) => inside(b) && !taken.some((t) => meets(b, t))) ?? (must ? boxes.find(inside) ?? boxes[0] : null);
    if (!box) continue;
    taken.push(box);
    brush.lineWidth = 3.5;
    brush.strokeStyle = ground;
    brush.strokeText(text, box.left + 3, box.top + box.high / 2);
    brush.fillStyle = color;
    brush.fillText(text, box.left + 3, box.top + box.high / 2);
  }
}

const meets = (a, b) =>
  a.left < b.left + b.wide && b.left < a.left + a.wide && a.top < b.top + b.high && b.top < a.top + a.high;

/** A number in the middle of a mark, if it fits and covers no other. */
export function tally(brush, { x, y, text, radius, ground, taken }) {
  const size = Math.min(12, 1.1 * radius);
  if (size < 8) return;
  brush.font = `700 ${size}px ${FONT}`;
  const long = brush.measureText(text).width;
  const box = { left: x - long / 2, top: y - size / 2, wide: long, high: size };
  if (long > 1.7 * radius || taken.some((t) => meets(box, t))) return;
  taken.push(box);
  brush.textBaseline = "middle";
  brush.textAlign = "center";
  brush.fillStyle = ground;
  brush.fillText(text, x, y + 0.5);
  brush.textAlign = "start";
}

/** A role's number in a small plate of its colour. */
export function badge(brush, { x, y, text, color, ground }) {
  brush.font = `700 12px ${FONT}`;
  brush.textBaseline = "middle";
  const wide = Math.max(brush.measureText(text).width + 12, 22);
  const box = { left: x - wide / 2, top: y - 11, wide, high: 22 };
  brush.beginPath();
  brush.roundRect(box.left, box.top, box.wide, box.high, 11);
  brush.fillStyle = color;
  brush.strokeStyle = ground;
  brush.lineWidth = 2.5;
  brush.stroke();
  brush.fill();
  brush.fillStyle = ground;
  brush.textAlign = "center";
  brush.fillText(text, x, y + 0.5);
  brush.textAlign = "start";
  return box;
}
