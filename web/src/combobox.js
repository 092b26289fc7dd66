// A text field with a list of answers under it: arrows walk, Enter takes, Escape closes.
import { make } from "./dom.js";

/** `find(text)` gives values, `row(value)` the children of its line, `take(value)` is called with the chosen one. */
export function combobox(input, list, { find, row, take, none }) {
  let values = [];
  let active = -1;

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const point = (i) => {
    list.children[active]?.setAttribute("aria-selected", "false");
    active = i;
    const line = list.children[i];
    line.setAttribute("aria-selected", "true");
    line.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", line.id);
  };
  const choose = (value) => {
    close();
    take(value);
  };
  const show = () => {
    values = find(input.value.trim());
    active = -1;
    const lines = values.map((value, i) =>
      make(
        "li",
        { role: "option", id: `${list.id}-${i}`, "aria-selected": "false", onpointerdown: (e) => e.preventDefault(), onclick: () => choose(value) },
        row(value),
      ),
    );
    const empty = input.value.trim() !== "" && !values.length;
    list.replaceChildren(...lines, ...(empty ? [make("li", { class: "none", role: "option", "aria-disabled": "true" }, none(input.value.trim()))] : []));
    list.hidden = !list.children.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
    if (values.length) point(0);
  };

  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!list.hidden) event.stopPropagation();
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) show();
      if (values.length) point((active + (event.key === "ArrowDown" ? 1 : values.length - 1)) % values.length);
    } else if (event.key === "Enter" && active >= 0) {
      event.preventDefault();
      choose(values[active]);
    }
  });
  return { close };
}
