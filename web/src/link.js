// The view as the fragment of the address, to be kept or passed on. What comes back is checked, never written out.

const KEYS = ["node", "role", "color", "at", "box", "weights", "show"];
const LONGEST = 10_000; // characters; a longer fragment is not ours

/** The fragment of a state, "" where nothing differs from how the page opens. */
export function fragmentOf({ node, role, color, at, box, weights, show }) {
  const parts = new URLSearchParams();
  if (node !== null) parts.set("node", node);
  if (role !== null) parts.set("role", role);
  if (color) parts.set("color", color);
  if (at) parts.set("at", at.map((v) => Number(v.toFixed(4))).join(","));
  if (box) parts.set("box", box.map((v) => Number(v.toFixed(4))).join(","));
  if (weights.length) parts.set("weights", weights.map(([name, weight]) => `${name}=${Number(weight.toFixed(4))}`).join(","));
  if (show) parts.set("show", show);
  return parts.toString();
}

/** What a fragment asks for, or null if it is none of ours; numbers are finite, the rest is text to be looked up. */
export function stateOf(fragment) {
  if (fragment.length > LONGEST) return null;
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  if (![...parts.keys()].some((key) => KEYS.includes(key))) return null;
  const role = parts.get("role");
  return {
    node: parts.get("node"),
    role: role !== null && /^\d{1,6}$/.test(role) ? Number(role) : null,
    color: parts.get("color"),
    at: numbers(parts.get("at"), 3),
    box: numbers(parts.get("box"), 4),
    weights: (parts.get("weights") ?? "").split(",").flatMap((pair) => {
      const cut = pair.lastIndexOf("=");
      const weight = number(pair.slice(cut + 1));
      return cut > 0 && weight !== null ? [[pair.slice(0, cut), weight]] : [];
    }),
    show: parts.get("show"),
  };
}

const number = (text) => (/^-?\d{1,9}(\.\d{1,9})?$/.test(text) ? Number(text) : null);

function numbers(text, many) {
  const values = (text ?? "").split(",").map(number);
  return values.length === many && !values.includes(null) ? values : null;
}
