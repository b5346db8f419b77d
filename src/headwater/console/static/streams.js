// The list of streams.
import { spark } from "./chart.js";
import { badge, bytes, el, number, rate, short, streamPath } from "./dom.js";
import { liveList } from "./listing.js";
import { once, Table } from "./table.js";

const table = new Table(
  document.getElementById("table"),
  [
    {
      key: "name",
      title: "Stream",
      draw: (cell, row) => once(cell, [row.site, row.name], () => el("a", { href: streamPath(row.site, row.name) }, row.name)),
    },
    { key: "site", title: "Site", wide: true },
    { key: "health", title: "Health", draw: (cell, row) => once(cell, [row.health, row.why], () => [badge(row.health), row.why ? ` ${row.why}` : ""]) },
    { key: "messages", title: "Messages", align: "right", text: (row) => number(row.messages) },
    { key: "bytes", title: "Size", align: "right", wide: true, text: (row) => bytes(row.bytes) },
    { key: "table", title: "Table", align: "right", wide: true, text: (row) => bytes(row.table) },
    { key: "rate", title: "Rate", align: "right", text: (row) => rate(row.rate) },
    { key: "spark", title: "Lately", value: (row) => row.rate, wide: true, draw: (cell, row) => once(cell, row.spark, () => (row.spark?.length ? spark(row.spark) : "")) },
    { key: "consumers", title: "Consumers", align: "right", wide: true, text: (row) => number(row.consumers) },
    { key: "pending", title: "Pending", align: "right", wide: true, text: (row) => (row.consumers ? short(row.pending) : "–") },
    { key: "lag", title: "Lag", align: "right", text: (row) => (row.copies ? (row.lag === undefined || row.lag === null ? "unknown" : short(row.lag)) : "–") },
  ],
  { search: (row) => `${row.site} ${row.name} ${row.health}`, empty: "no stream matches" },
);

liveList(table, "streams");
