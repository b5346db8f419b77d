// A table that sorts, filters and updates in place: a cell is touched only if its text changed.
import { el, setText } from "./dom.js";

// A column is { key, title, text(row), value(row), draw(cell, row), align, wide }.
// `draw` fills the cell itself; `value` is what is sorted by; columns that are `wide` are hidden on phones.
export class Table {
  constructor(place, columns, { search, empty = "nothing here", sort } = {}) {
    this.columns = columns;
    this.search = search;
    this.sort = sort || { key: columns[0].key, down: false };
    this.filter = "";
    this.rows = {};
    this.lines = new Map();
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody");
    this.empty = el("p", { class: "hint", hidden: true }, empty);
    place.append(el("table", {}, el("thead", {}, el("tr", {}, ...this.heads)), this.body), this.empty);
  }

  head(column) {
    const button = el("button", { type: "button", onclick: () => this.sortBy(column.key) }, column.title);
    return el("th", { scope: "col", class: classes(column) }, column.title ? button : "");
  }

  sortBy(key) {
    this.sort = { key, down: this.sort.key === key ? !this.sort.down : true };
    this.draw();
  }

  show(rows) {
    this.rows = rows || {};
    this.draw();
  }

  narrow(text) {
    this.filter = text.toLowerCase();
    this.draw();
  }

  draw() {
    const keys = this.visible();
    const wanted = new Set(keys);
    for (const [key, line] of this.lines) {
      if (!wanted.has(key)) {
        line.remove();
        this.lines.delete(key);
      }
    }
    let place = this.body.firstElementChild;
    for (const key of keys) {
      const line = this.line(key);
      if (line === place) place = place.nextElementSibling;
      else this.body.insertBefore(line, place);
    }
    this.columns.forEach((column, index) => {
      const order = column.key === this.sort.key ? (this.sort.down ? "descending" : "ascending") : "none";
      this.heads[index].setAttribute("aria-sort", order);
    });
    this.empty.hidden = keys.length > 0;
  }

  visible() {
    const column = this.columns.find((each) => each.key === this.sort.key) || this.columns[0];
    const value = column.value || ((row) => row[column.key]);
    const sign = this.sort.down ? -1 : 1;
    const found = Object.keys(this.rows).filter(
      (key) => !this.filter || this.search(this.rows[key]).toLowerCase().includes(this.filter),
    );
    const values = new Map(found.map((key) => [key, value(this.rows[key])]));
    return found.sort((one, other) => sign * compare(values.get(one), values.get(other)) || compare(one, other));
  }

  line(key) {
    let line = this.lines.get(key);
    if (!line) {
      line = el("tr", {}, ...this.columns.map((column) => el("td", { class: classes(column), "data-label": column.title })));
      this.lines.set(key, line);
    }
    const row = this.rows[key];
    this.columns.forEach((column, index) => {
      const cell = line.children[index];
      if (column.draw) column.draw(cell, row);
      else setText(cell, column.text ? column.text(row) : String(row[column.key] ?? "–"));
    });
    return line;
  }
}

const classes = (column) => [column.align || "", column.wide ? "wide" : ""].join(" ").trim() || undefined;

function compare(one, other) {
  if (one === other) return 0;
  if (one === undefined || one === null) return -1;
  if (other === undefined || other === null) return 1;
  return typeof one === "string" ? one.localeCompare(other) : one - other;
}

// Draws something into a cell only when what it depends on changed.
export function once(cell, basis, draw) {
  const key = JSON.stringify(basis);
  if (cell.dataset.basis === key) return;
  cell.dataset.basis = key;
  cell.replaceChildren(...[draw()].flat());
}

export function bindFilter(input, table, onchange = () => {}) {
  const given = new URLSearchParams(location.search).get("filter");
  if (given) input.value = given;
  const apply = () => {
    table.narrow(input.value);
    onchange();
  };
  input.addEventListener("input", apply);
  apply();
}
