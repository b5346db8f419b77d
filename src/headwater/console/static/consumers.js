// The list of consumers, and NATS Streaming where it is served.
import { consumerColumns } from "./consumer_columns.js";
import { bytes, number } from "./dom.js";
import { liveList } from "./listing.js";
import { Table } from "./table.js";
import { streamColumn } from "./upstream_columns.js";

const [name, ...others] = consumerColumns;
const table = new Table(document.getElementById("table"), [name, streamColumn, ...others], {
  search: (row) => `${row.site} ${row.stream} ${row.name} ${row.kind} ${row.filter}`,
  empty: "no consumer matches",
  sort: { key: "pending", down: true },
});
const channels = new Table(document.getElementById("channels"), [
  { key: "name", title: "Channel" },
  { key: "site", title: "Site", wide: true },
  { key: "messages", title: "Messages", align: "right", text: (row) => number(row.messages) },
  { key: "bytes", title: "Size", align: "right", text: (row) => bytes(row.bytes) },
  { key: "last_seq", title: "Last sequence", align: "right", wide: true, text: (row) => number(row.last_seq) },
  { key: "subscriptions", title: "Subscriptions", align: "right", text: (row) => number(row.subscriptions) },
  { key: "pending", title: "Unacked", align: "right", text: (row) => number(row.pending) },
  { key: "stalled", title: "Stalled", align: "right", text: (row) => number(row.stalled) },
  { key: "offline", title: "Offline", align: "right", wide: true, text: (row) => number(row.offline) },
]);
const clients = new Table(document.getElementById("clients"), [
  { key: "id", title: "Client" },
  { key: "site", title: "Site" },
  { key: "subscriptions", title: "Subscriptions", align: "right", text: (row) => number(row.subscriptions) },
]);

liveList(table, "consumers", (view) => {
  channels.show(view.channels);
  clients.show(view.clients);
  document.getElementById("streaming").hidden = !Object.keys(view.channels).length && !Object.keys(view.clients).length;
});
