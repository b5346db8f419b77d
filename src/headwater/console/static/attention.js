// What needs attention, the worst first.
import { badge, coded, el, setText, streamPath } from "./dom.js";
import { live } from "./live.js";
import { once, Table } from "./table.js";

const LEVELS = { critical: "bad", warning: "busy", notice: "unknown" };
const ORDER = ["critical", "warning", "notice"];

const table = new Table(
  document.getElementById("table"),
  [
    { key: "severity", title: "Severity", value: (row) => ORDER.indexOf(row.severity), draw: (cell, row) => once(cell, row.severity, () => badge(LEVELS[row.severity], row.severity)) },
    { key: "site", title: "Site", align: "nowrap" },
    { key: "about", title: "What", draw: (cell, row) => once(cell, [row.site, row.stream, row.about], () => (row.stream ? el("a", { href: streamPath(row.site, row.stream) }, row.about) : row.about)) },
    { key: "sentence", title: "What is wrong" },
    { key: "remedy", title: "What to do", draw: (cell, row) => once(cell, row.remedy, () => coded(row.remedy)) },
  ],
  { search: (row) => row.about, empty: "", sort: { key: "severity", down: false } },
);

live((view) => {
  table.show(view.entries);
  const total = ORDER.reduce((sum, severity) => sum + view.counts[severity], 0);
  document.getElementById("fine").hidden = total > 0;
  document.getElementById("table").hidden = total === 0;
  const said = ORDER.filter((severity) => view.counts[severity]).map((severity) => `${view.counts[severity]} ${severity}`);
  setText(document.getElementById("count"), `${said.join(", ")}${view.hidden ? `, ${view.hidden} not shown` : ""}`);
});
