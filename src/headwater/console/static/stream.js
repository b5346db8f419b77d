// One stream.
import { plot } from "./chart.js";
import { consumerColumns } from "./consumer_columns.js";
import { asked, badge, bytes, duration, el, moment, number, rate, short, streamPath, svg } from "./dom.js";
import { showFiles } from "./files.js";
import { live } from "./live.js";
import { pairs, showSpans, tile } from "./spans.js";
import { once, Table } from "./table.js";
import { unknown, upstreamColumns } from "./upstream_columns.js";

const at = (id) => document.getElementById(id);
showSpans(at("spans"));
const upstreams = new Table(at("upstreams"), upstreamColumns, { empty: "this stream copies no other" });
const consumers = new Table(at("consumers"), consumerColumns, { empty: "no consumers", sort: { key: "pending", down: true } });
const copies = new Table(
  at("copies"),
  [
    { key: "stream", title: "Stream", draw: (cell, row) => once(cell, [row.site, row.stream], () => [el("a", { href: streamPath(row.site, row.stream) }, row.stream), el("div", { class: "hint" }, row.site)]) },
    { key: "health", title: "Health", draw: (cell, row) => once(cell, row.health, () => badge(row.health)) },
    { key: "lag", title: "Lag", align: "right", text: (row) => unknown(row.lag, short) },
  ],
  { empty: "no watched stream copies this one" },
);

live((view) => {
  const state = view.state;
  at("health").replaceChildren(badge(view.health));
  at("why").replaceChildren(...(view.why ? [el("p", { class: `notice ${view.health}` }, view.why)] : []));
  at("tiles").replaceChildren(
    tile("messages", number(state.messages)),
    tile("size", bytes(state.bytes)),
    tile("rate", rate(view.rate)),
    tile("sequences", `${number(state.first_seq)} – ${number(state.last_seq)}`),
    tile("subjects", number(state.num_subjects)),
    tile("deleted", number(state.num_deleted || 0)),
    tile("consumers", number(state.consumer_count)),
    tile("last message", moment(state.last_ts).replaceAll("-", "\u2011")),
  );
  at("plots").replaceChildren(
    plot("Messages a second", [{ points: view.plots.rate }], rate),
    plot("Size", [{ points: view.plots.bytes }], bytes),
    ...(view.plots.lag.length ? [plot("Lag of its copies in messages", [{ points: view.plots.lag }], short)] : []),
    ...(view.plots.pending.length ? [plot("Pending for consumers", [{ points: view.plots.pending }], short)] : []),
  );
  at("limits").replaceChildren(limits(view.limits));
  at("table").replaceChildren(files(view.table));
  showFiles(at("files"), view.table);
  upstreams.show(view.upstreams);
  copies.show(view.copies);
  consumers.show(view.consumers);
  once(at("config"), view.config, () => JSON.stringify(view.config, null, 2));
});

const FORMATS = { max_bytes: bytes, max_age: duration };

function limits(given) {
  const rows = Object.entries(given).map(([name, limit]) => {
    const format = FORMATS[name] || number;
    const level = limit.share >= 0.95 ? "bad" : limit.share >= 0.8 ? "busy" : "good";
    const bar = svg("svg", { class: `meter ${level}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": `${Math.round(limit.share * 100)} percent` }, svg("rect", { width: Math.min(limit.share, 1) * 100, height: 8 }));
    return [name, el("div", {}, bar, `${format(limit.used)} of ${format(limit.most)} (${Math.round(limit.share * 100)}%)`)];
  });
  return rows.length ? pairs(rows) : el("span", { class: "hint" }, "no limit is set");
}

function files(table) {
  if (!("files" in table)) return el("span", { class: "hint" }, "the engine's metrics say this: start it with --http-port, and the console with --monitoring");
  return pairs([
    ["data files", number(table.files)],
    ["size", bytes(table.bytes)],
    ["mean file", table.files ? bytes(table.bytes / table.files) : "–"],
    ["log", bytes(table.log)],
    ["not in the table yet", `${number(table.unfolded)} messages`],
    ["removed sequences", number(table.deleted)],
  ]);
}

at("count-subjects").addEventListener("click", async (event) => {
  event.target.disabled = true;
  const found = await asked(event.target.dataset.path);
  event.target.disabled = false;
  if (found.error) {
    at("subjects").replaceChildren(el("p", { class: "notice bad" }, found.error));
    return;
  }
  const rows = found.subjects.map(([subject, count]) => [el("code", {}, subject), number(count)]);
  const more = found.total > rows.length ? [el("p", { class: "hint" }, `the ${rows.length} largest of ${number(found.total)}`)] : [];
  at("subjects").replaceChildren(pairs(rows), ...more);
});
