// The list of sources and mirrors of all sites.
import { number, setText, showSites } from "./dom.js";
import { live } from "./live.js";
import { bindFilter, Table } from "./table.js";
import { streamColumn, upstreamColumns } from "./upstream_columns.js";

const table = new Table(document.getElementById("table"), [streamColumn, ...upstreamColumns], {
  search: (row) => `${row.site} ${row.stream} ${row.origin} ${row.phase} ${row.health} ${row.why}`,
  empty: "no source and no mirror matches",
  sort: { key: "lag", down: true },
});
let total = 0;
const say = () => setText(document.getElementById("count"), `${number(table.shown)} of ${number(total)} sources and mirrors`);

bindFilter(document.getElementById("filter"), table, say);
live((view) => {
  showSites(document.getElementById("sites"), view.sites);
  total = view.total;
  table.show(view.rows);
  say();
});
