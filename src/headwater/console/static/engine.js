// Engines and servers: what they say about themselves.
import { plot } from "./chart.js";
import { badge, bytes, clock, duration, el, number, rate, streamPath } from "./dom.js";
import "./activity.js";
import { live } from "./live.js";
import { pairs, tile } from "./spans.js";

live((view) => {
  const parts = Object.entries(view.engines).map(([name, engine]) => section(name, engine));
  document.getElementById("engines").replaceChildren(...parts);
});

function section(name, engine) {
  const ready = engine.readiness;
  const level = engine.error ? "bad" : "ready" in ready ? (ready.ready ? "good" : "bad") : "unknown";
  const said = engine.error ? "does not answer" : "ready" in ready ? (ready.ready ? "ready" : "not ready") : "no monitoring";
  return el(
    "section",
    {},
    el("h2", {}, `${name} `, badge(level, said)),
    ...[engine.error, engine.monitoring_error].filter(Boolean).map((text) => el("p", { class: "notice bad" }, text)),
    ...Object.entries(ready.checks || {})
      .filter(([, problem]) => problem !== "ok")
      .map(([check, problem]) => el("p", { class: "notice bad" }, el("strong", {}, check), ` ${problem}`)),
    ...Object.entries(engine.offline).map(([stream, why]) => el("p", { class: "notice bad" }, el("strong", {}, `${stream} is offline: `), why)),
    engine.numbers ? numbers(engine.numbers) : el("p", { class: "hint" }, "Pass --monitoring with the address of the engine's --http-port to see its disk, log and folds."),
    el("div", { class: "grid" }, ...plots(engine), el("div", { class: "card" }, el("h3", {}, "Account"), account(engine))),
    ...pipelines(engine.pipelines, name),
    ...warnings(engine),
  );
}

const LEVELS = { running: "good", starting: "unknown", paused: "unknown", failing: "bad" };

const PIPELINE_HEADINGS = [["Pipeline"], ["State"], ["Reads"], ["Writes to"], ["Lag", "right"], ["Rate", "right"], ["Last batch", "right"], ["Rows of state", "right"]];

function pipelines(found, site) {
  if (!found || !found.length) return [];
  const heads = PIPELINE_HEADINGS.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  const rows = found.map((each) => pipelineRow(each, site));
  const table = el("table", { class: "rows" }, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows));
  const problems = found.filter((each) => each.problem).map((each) => el("p", { class: "notice bad" }, el("strong", {}, `${each.name}: `), each.problem));
  return [el("h3", {}, "Pipelines"), ...problems, el("div", { class: "scroll", tabindex: "0" }, table)];
}

function pipelineRow(each, site) {
  const link = (stream) => el("a", { href: streamPath(site, stream) }, stream);
  const inputs = each.inputs.flatMap((stream, place) => [place ? ", " : "", link(stream)]);
  const figure = (label, text) => el("td", { class: "right", "data-label": label }, text);
  return el(
    "tr",
    {},
    el("td", { class: "first" }, each.name),
    el("td", {}, badge(LEVELS[each.state] || "unknown", each.state)),
    el("td", { class: "labelled", "data-label": "reads" }, ...inputs),
    el("td", { class: "labelled", "data-label": "writes to" }, link(each.target)),
    figure("lag", each.lag === null ? "unknown" : number(each.lag)),
    figure("rate", rate(each.rate)),
    figure("last batch", each.batch_ms ? duration(each.batch_ms / 1000) : "–"),
    figure("rows of state", number(each.state_rows)),
  );
}

function numbers(found) {
  const used = found.disk_size ? 1 - found.disk_free / found.disk_size : null;
  return el(
    "div",
    { class: "tiles" },
    tile("phase", found.phase || "–"),
    tile("release", found.version || "–"),
    tile("running for", found.started ? duration(Date.now() / 1000 - found.started) : "–"),
    tile("disk free", `${bytes(found.disk_free)}${used === null ? "" : ` (${Math.round(used * 100)}% used)`}`),
    tile("memory", bytes(found.memory)),
    tile("open files", `${number(found.open_files)} of ${number(found.max_files)}`),
    tile("stored since the start", number(found.stored)),
    tile("mean time to an ack", duration(found.ack_mean)),
    tile("mean commit", duration(found.commit_mean)),
    tile("logs", bytes(found.log)),
    tile("not in tables yet", number(found.unfolded)),
    tile("tables", `${bytes(found.table_bytes)} in ${number(found.table_files)} files`),
    tile("folds", `${number(found.fold_count)}, mean ${duration(found.fold_mean)}`),
    tile("failed folds", number(found.failed_folds)),
    tile("compactions", `${number(found.compaction_count)}, mean ${duration(found.compaction_mean)}`),
    tile("refused commits", number(found.refused)),
    tile("read cache", bytes(found.cache)),
    tile("event loop delay", duration(found.loop_mean)),
    tile("sources and mirrors", `${number(found.upstreams)}, ${number(found.failing_upstreams)} failing`),
    ...Object.entries(found.journal || {}).map(([peer, lag]) => tile(`journal copy ${peer}`, `lag ${number(lag)}`)),
  );
}

function plots(engine) {
  const found = [plot("Messages stored a second", [{ points: engine.plots.rate }], rate)];
  if (engine.plots.memory.length) found.push(plot("Memory", [{ points: engine.plots.memory }], bytes));
  if (engine.plots.disk.length) found.push(plot("Free disk", [{ points: engine.plots.disk }], bytes));
  return found;
}

function account(engine) {
  const limit = (value, format) => ((value ?? -1) < 0 ? "no limit" : format(value));
  return pairs([
    ["server", engine.server || "–"],
    ["address", engine.address],
    ["domain", engine.domain || "–"],
    ["monitoring", engine.monitoring || "–"],
    ["streams", `${number(engine.account.streams)} (${limit(engine.limits.max_streams, number)})`],
    ["consumers", `${number(engine.account.consumers)} (${limit(engine.limits.max_consumers, number)})`],
    ["file storage", `${bytes(engine.account.storage)} (${limit(engine.limits.max_storage, bytes)})`],
    ["memory storage", `${bytes(engine.account.memory)} (${limit(engine.limits.max_memory, bytes)})`],
  ]);
}

function warnings(engine) {
  if (!engine.warnings.length) return [];
  const lines = engine.warnings.map((each) =>
    el("tr", {}, el("td", {}, clock(each.time_s)), el("td", {}, badge(each.level === "warning" ? "busy" : "bad", each.level)), el("td", {}, each.message, each.times > 1 ? ` (${number(each.times)} times)` : ""), el("td", { class: "wide hint" }, each.logger)),
  );
  return [el("h3", {}, "Last warnings"), el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...lines)))];
}
