// The jobs of the replicators and the ends of the engines' logs, asked for every few seconds while the page is seen.
import { asked, badge, bytes, clock, duration, el, number, rate, streamPath } from "./dom.js";
import { once } from "./table.js";

const EVERY_MS = 3000;
const level = document.getElementById("level");
const follow = document.getElementById("follow");
const jobsPlace = document.getElementById("jobs");
const logPlace = document.getElementById("log");

async function showJobs() {
  draw(jobsPlace, await asked(jobsPlace.dataset.path), "jobs are known for engines with a monitoring port", jobsOf);
}

async function showLog() {
  const path = `${logPlace.dataset.path}?level=${encodeURIComponent(level.value)}`;
  draw(logPlace, await asked(path), "logs are known for engines with a monitoring port", linesOf);
}

// Draws one part for each site, again only if the answer has changed.
function draw(place, found, nothing, part) {
  once(place, found, () => {
    if (found.error) return el("p", { class: "notice bad" }, found.error);
    const sites = Object.entries(found);
    if (!sites.length) return el("p", { class: "hint" }, nothing);
    return sites.map(([site, said]) =>
      el("div", {}, sites.length > 1 ? el("h3", {}, site) : null, said.problem ? el("p", { class: "notice" }, said.problem) : part(said, site)),
    );
  });
}

function jobsOf(said, site) {
  const state = said.is_started_here
    ? [badge(said.is_running ? "good" : "unknown", said.is_running ? "the replicator runs" : "no replicator runs"), said.restarts ? ` ${number(said.restarts)} restarts` : ""]
    : ["The engine does not start a replicator: it is submitted to Spark on its own."];
  const lines = said.jobs.map((job) => jobLine(job, site));
  return el(
    "div",
    {},
    el("p", {}, ...state),
    said.why ? el("p", { class: "notice bad" }, said.why) : null,
    el("div", { class: "scroll tail", tabindex: "0" }, lines.length ? table(["Began", "State", "Copies", ["Tasks", "right"], ["Took", "right"], ["Messages", "right"], ["Rate", "right wide"], ["Reads", "right wide"]], lines) : el("p", { class: "hint" }, "no jobs yet")),
  );
}

function jobLine(job, site) {
  const level = job.error ? "bad" : job.is_running ? "busy" : "good";
  const origins = new Map();
  for (const each of job.copies) origins.set(each.stream, [...(origins.get(each.stream) || []), each.origin || "?"]);
  const copies = [...origins].flatMap(([stream, from], place) => [place ? "; " : "", el("a", { href: streamPath(site, stream) }, stream), ` from ${from.join(", ")}`]);
  return el(
    "tr",
    {},
    el("td", { class: "nowrap" }, clock(job.began_s)),
    el("td", {}, badge(level, job.is_running ? "runs" : job.error ? "failed" : "done")),
    el("td", { class: "remark" }, ...copies, job.more_copies ? ` and ${number(job.more_copies)} more` : "", job.error ? el("div", { class: "hint" }, job.error) : null),
    el("td", { class: "right" }, `${number(job.done)} of ${number(job.tasks)}${job.failed ? `, ${number(job.failed)} failed` : ""}`),
    el("td", { class: "right" }, duration(job.seconds)),
    el("td", { class: "right" }, number(job.messages)),
    el("td", { class: "right wide" }, rate(job.messages_per_s)),
    el("td", { class: "right wide" }, job.read_bytes ? bytes(job.read_bytes) : job.kinds.join(", ")),
  );
}

const LEVELS = { debug: "unknown", info: "unknown", warning: "busy" };

function linesOf(said) {
  const lines = said.lines.map((line) =>
    el(
      "tr",
      {},
      el("td", { class: "mono nowrap" }, clock(line.time_s)),
      el("td", {}, badge(LEVELS[line.level] || "bad", line.level)),
      el("td", { class: "mono said" }, line.message, line.times > 1 ? ` (${number(line.times)} times)` : ""),
      el("td", { class: "wide hint" }, line.logger),
    ),
  );
  return el("div", { class: "scroll tail", tabindex: "0" }, lines.length ? table(["Time", "Level", "Message", ["Part", "wide"]], lines) : el("p", { class: "hint" }, "no lines of this level"));
}

function table(titles, lines) {
  const heads = titles.map((title) => (Array.isArray(title) ? el("th", { scope: "col", class: title[1] }, title[0]) : el("th", { scope: "col" }, title)));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...lines));
}

level.addEventListener("change", showLog);
async function again() {
  if (!document.hidden) await Promise.all([showJobs(), follow.checked ? showLog() : null]);
  setTimeout(again, EVERY_MS);
}
again();
