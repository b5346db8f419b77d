// The buttons that choose how far back plots go: links, so that an address can be shared.
import { el } from "./dom.js";

export function showSpans(place) {
  const now = new URLSearchParams(location.search).get("span") || "10m";
  const names = { "10m": "10 minutes", "1h": "1 hour", "6h": "6 hours" };
  place.append(
    ...Object.entries(names).map(([span, name]) =>
      el("a", { href: `?span=${span}`, "aria-current": span === now ? "true" : undefined }, name),
    ),
  );
}

// Values that would not fit into one line are written smaller.
export const tile = (name, value) => el("div", { class: "tile" }, el("b", { class: value.length > 11 ? "long" : undefined }, value), el("span", {}, name));

export function pairs(rows) {
  return el("dl", { class: "pairs" }, ...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}
