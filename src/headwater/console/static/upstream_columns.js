// The columns of sources and mirrors, for the list of all and for those of one stream.
import { spark } from "./chart.js";
import { badge, coded, duration, el, number, rate, short, streamPath } from "./dom.js";
import { once } from "./table.js";

export const upstreamPath = (row) => `/upstreams/${encodeURIComponent(row.site)}/${encodeURIComponent(row.stream)}/${row.place}`;
export const unknown = (value, text) => ((value ?? null) === null ? "unknown" : text(value));

export const upstreamColumns = [
  { key: "origin", align: "first", title: "Origin", draw: (cell, row) => once(cell, [row.origin, row.api, row.filter], () => [el("a", { href: upstreamPath(row) }, row.origin), el("div", { class: "hint" }, [row.kind, row.api, row.filter].filter(Boolean).join(" · "))]) },
  { key: "phase", title: "Phase", draw: (cell, row) => once(cell, [row.phase, row.health], () => badge(row.health, row.phase || row.health)) },
  { key: "lag", title: "Lag", align: "right", text: (row) => unknown(row.lag, short) },
  { key: "spark", title: "Lag lately", wide: true, value: (row) => row.lag, draw: (cell, row) => once(cell, row.spark, () => spark(row.spark, 90)) },
  { key: "behind", title: "Behind", align: "right", text: (row) => duration(row.behind) },
  { key: "rate", title: "Rate", align: "right", text: (row) => rate(row.rate) },
  { key: "rate_spark", title: "Rate lately", wide: true, value: (row) => row.rate, draw: (cell, row) => once(cell, row.rate_spark, () => spark(row.rate_spark, 70)) },
  { key: "left", title: "Time left", align: "right", wide: true, text: (row) => duration(row.left) },
  { key: "gaps", title: "Gaps", align: "right", text: (row) => (row.gaps ? `${number(row.gaps)} (${number(row.gap_sequences)})` : "–") },
  { key: "restarts", title: "Restarts", align: "right", wide: true, text: (row) => (row.restarts ? number(row.restarts) : "–") },
  { key: "silent", title: "Last seen", align: "right", wide: true, text: (row) => ((row.silent ?? null) === null ? "never" : `${duration(row.silent)} ago`) },
  { key: "why", title: "Remark", align: "remark", draw: (cell, row) => once(cell, [row.why, row.remedy], () => [row.why || "", ...(row.remedy ? [el("div", { class: "hint" }, "What to do: ", ...coded(row.remedy))] : [])]) },
];

export const streamColumn = {
  key: "stream",
  title: "Stream",
  align: "first",
  draw: (cell, row) => once(cell, [row.site, row.stream], () => [el("a", { href: streamPath(row.site, row.stream) }, row.stream), el("div", { class: "hint" }, row.site)]),
};
