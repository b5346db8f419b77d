// The data files of a stream's table, a page at a time; asked for again when the table has changed.
import { asked, bytes, el, moment, number } from "./dom.js";

let seen = "";
let offset = 0;

// `table` is what the metrics say; a plain nats-server says nothing and has no table.
export function showFiles(place, table) {
  place.hidden = !("files" in table);
  const basis = `${table.files} ${table.bytes}`;
  if (place.hidden || basis === seen) return;
  seen = basis;
  load(place);
}

async function load(place) {
  const found = await asked(`${place.dataset.path}?offset=${offset}`);
  if (found.error) {
    place.replaceChildren(el("p", { class: "notice" }, found.error));
    return;
  }
  const last = Math.min(offset + found.per_page, found.files);
  place.replaceChildren(
    el("div", { class: "scroll" }, found.listed.length ? rows(found.listed) : el("p", { class: "hint" }, "no files yet: messages are in the log until they are folded")),
    el(
      "div",
      { class: "bar" },
      offset > 0 ? step(place, "Newer", Math.max(offset - found.per_page, 0)) : null,
      last < found.files ? step(place, "Older", last) : null,
      el("span", { class: "hint", role: "status" }, `${found.listed.length ? `${number(offset + 1)} – ${number(last)} of ` : ""}${number(found.files)} files, version ${number(found.version)}, up to sequence ${number(found.through)}`),
    ),
  );
}

function step(place, name, to) {
  const onclick = () => {
    offset = to;
    load(place);
  };
  return el("button", { type: "button", onclick }, name);
}

const KINDS = { small: "to be merged with others", full: "stays as it is", linked: "a whole file of the origin" };

function rows(listed) {
  const head = [["File", ""], ["Sequences", "right"], ["Messages", "right"], ["Removed", "right wide"], ["Size", "right"], ["Kind", ""], ["Newest message", "wide"]];
  const lines = listed.map((file) =>
    el(
      "tr",
      {},
      el("td", { class: "mono file", title: file.path }, file.path.split("/").pop()),
      el("td", { class: "right" }, `${number(file.first_seq)} – ${number(file.last_seq)}`),
      el("td", { class: "right" }, number(file.messages)),
      el("td", { class: "right wide" }, file.removed ? number(file.removed) : "–"),
      el("td", { class: "right" }, bytes(file.bytes)),
      el("td", { title: KINDS[file.kind] }, file.kind),
      el("td", { class: "wide nowrap" }, moment(file.last_ts / 1e6)),
    ),
  );
  const titles = head.map(([title, classes]) => el("th", { scope: "col", class: classes || undefined }, title));
  return el("table", {}, el("thead", {}, el("tr", {}, ...titles)), el("tbody", {}, ...lines));
}
