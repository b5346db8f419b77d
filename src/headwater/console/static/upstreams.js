// The list of sources and mirrors of all sites.
import { liveList } from "./listing.js";
import { Table } from "./table.js";
import { streamColumn, upstreamColumns } from "./upstream_columns.js";

const table = new Table(document.getElementById("table"), [streamColumn, ...upstreamColumns], {
  search: (row) => `${row.site} ${row.stream} ${row.origin} ${row.phase} ${row.health} ${row.why}`,
  empty: "no source and no mirror matches",
  sort: { key: "lag", down: true },
});

liveList(table, "sources and mirrors");
