// A table that sorts, filters and updates in place: a cell is touched only if its text changed.
import { el, number, setText } from "./dom.js";

const PIECE = 100; // so many rows are drawn at first, and more when their end comes near
const NEAR = "1200px";
const COLLATOR = new Intl.Collator();

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
    this.drawn = new Map(); // the row that each line shows
    this.most = PIECE;
    this.heads = columns.map((column) => this.head(column));
    this.body = el("tbody");
    this.empty = el("p", { class: "hint", hidden: true }, empty);
    this.whole = el("table", {}, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.more = el("button", { type: "button", class: "more", hidden: true, onclick: () => this.grow() });
    // A hidden button never comes near; one that is still near after a piece is seen again.
    this.seen = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.grow(), { rootMargin: NEAR });
    place.append(this.whole, this.more, this.empty);
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
    if (rows === this.rows) return; // no row changed
    this.rows = rows || {};
    this.draw();
  }

  grow() {
    this.most += PIECE;
    this.draw();
  }

  narrow(text) {
    this.filter = text.toLowerCase();
    this.most = PIECE;
    this.draw();
  }

  draw() {
    const keys = this.visible();
    const drawn = keys.slice(0, this.most);
    const wanted = new Set(drawn);
    for (const [key, line] of this.lines) {
      if (!wanted.has(key)) {
        line.remove();
        this.lines.delete(key);
        this.drawn.delete(key);
      }
    }
    let place = this.body.firstElementChild;
    for (const key of drawn) {
      const line = this.line(key);
      if (line === place) place = place.nextElementSibling;
      else this.body.insertBefore(line, place);
    }
    this.shown = keys.length;
    this.offerMore(keys.length - drawn.length);
    this.columns.forEach((column, index) => {
      const order = column.key === this.sort.key ? (this.sort.down ? "descending" : "ascending") : "none";
      this.heads[index].setAttribute("aria-sort", order);
    });
    this.empty.hidden = keys.length > 0;
    this.whole.hidden = Object.keys(this.rows).length === 0;
  }

  offerMore(left) {
    this.more.hidden = left <= 0;
    this.seen.unobserve(this.more);
    if (left <= 0) return;
    setText(this.more, `Show ${number(Math.min(left, PIECE))} more of ${number(left)}`);
    this.seen.observe(this.more);
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
    const row = this.rows[key];
    if (line && this.drawn.get(key) === row) return line;
    this.drawn.set(key, row);
    if (!line) {
      line = el("tr", {}, ...this.columns.map((column) => el("td", { class: classes(column), "data-label": column.title })));
      this.lines.set(key, line);
    }
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
  return typeof one === "string" ? COLLATOR.compare(one, other) : one - other;
}

const bases = new WeakMap();

// Draws something into a cell only when what it depends on changed.
export function once(cell, basis, draw) {
  const key = JSON.stringify(basis);
  if (bases.get(cell) === key) return;
  bases.set(cell, key);
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
