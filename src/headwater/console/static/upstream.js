// One source or mirror.
import { plot } from "./chart.js";
import { badge, bytes, coded, duration, el, moment, number, rate, short } from "./dom.js";
import { live } from "./live.js";
import { showSpans, tile } from "./spans.js";
import { Table } from "./table.js";
import { unknown } from "./upstream_columns.js";

showSpans(document.getElementById("spans"));
const gaps = new Table(
  document.getElementById("gaps"),
  [
    { key: "first_seq", title: "First sequence", align: "right", text: (row) => number(row.first_seq) },
    { key: "last_seq", title: "Last sequence", align: "right", text: (row) => number(row.last_seq) },
    { key: "count", title: "Sequences", align: "right", value: (row) => row.last_seq - row.first_seq + 1, text: (row) => number(row.last_seq - row.first_seq + 1) },
    { key: "time", title: "Recorded", text: (row) => moment(row.time) },
    { key: "reason", title: "Reason" },
  ],
  { empty: "no gaps" },
);

live((view) => {
  const row = view.row;
  document.getElementById("health").replaceChildren(badge(row.health, row.phase || row.health));
  document.getElementById("why").replaceChildren(...(row.why ? [el("div", { class: `notice ${row.health}` }, row.why, row.remedy ? el("div", {}, el("strong", {}, "What to do: "), ...coded(row.remedy)) : null)] : []));
  document.getElementById("tiles").replaceChildren(
    tile("lag", unknown(row.lag, short)),
    tile("behind", duration(row.behind)),
    tile("rate", rate(row.rate)),
    tile("bytes", (row.bytes_rate ?? null) === null ? "–" : `${bytes(row.bytes_rate)}/s`),
    tile("time left", duration(row.left)),
    tile("copied since the engine started", number(row.copied)),
    tile("gaps", number(row.gaps)),
    tile("sequences in gaps", number(row.gap_sequences)),
    tile("restarts", number(row.restarts)),
    ...((row.dead_letters ?? null) === null ? [] : [tile("dead letters since the engine started", number(row.dead_letters))]),
    tile("last seen", (row.silent ?? null) === null ? "never" : `${duration(row.silent)} ago`),
    ...(row.failing_since ? [tile("failing since", moment(row.failing_since))] : []),
    ...(row.next_attempt ? [tile("next attempt", moment(row.next_attempt))] : []),
  );
  document.getElementById("plots").replaceChildren(
    plot("Lag in messages", [{ points: view.plots.lag }], short),
    plot("Behind in seconds", [{ points: view.plots.behind }], duration),
    plot("Messages a second", [{ points: view.plots.rate }], rate),
  );
  gaps.show(Object.fromEntries(view.gaps.map((gap) => [`${gap.first_seq}`, gap])));
  document.getElementById("raw").textContent = JSON.stringify(view.raw, null, 2);
});
