// The columns of consumers, for the list of all and for those of one stream.
import { badge, moment, number, short } from "./dom.js";
import { once } from "./table.js";

export const consumerColumns = [
  { key: "name", title: "Consumer", align: "first", draw: (cell, row) => once(cell, [row.name, row.paused, row.filter], () => [row.name, " ", row.paused ? badge("busy", "paused") : ""]) },
  { key: "kind", title: "Kind", wide: true },
  { key: "filter", title: "Filter", wide: true, text: (row) => row.filter || "–" },
  { key: "pending", title: "Pending", align: "right", text: (row) => short(row.pending) },
  { key: "ack_pending", title: "Unacked", align: "right", text: (row) => (row.max_ack_pending > 0 ? `${short(row.ack_pending)} of ${short(row.max_ack_pending)}` : short(row.ack_pending)) },
  { key: "floor", title: "Ack floor", align: "right", wide: true, text: (row) => number(row.floor) },
  { key: "delivered", title: "Delivered", align: "right", wide: true, text: (row) => number(row.delivered) },
  { key: "redelivered", title: "Redelivered", align: "right", text: (row) => number(row.redelivered) },
  { key: "waiting", title: "Waiting pulls", align: "right", wide: true, text: (row) => (row.kind === "pull" ? number(row.waiting) : "–") },
  { key: "active", title: "Last delivery", wide: true, text: (row) => (row.active ? moment(row.active) : "never") },
];
