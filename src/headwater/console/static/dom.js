// Elements and text. Nothing here parses HTML: every value from a site becomes text.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

export const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

export const number = (value) => (value === undefined || value === null ? "–" : Math.round(value).toLocaleString("en-US"));

export function short(value) {
  if (value === undefined || value === null) return "–";
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return `${trim(value / (unit === "k" ? 1e3 : limit))}${unit}`;
  }
  return size >= 100 || Number.isInteger(value) ? number(value) : trim(value);
}

const trim = (value) => String(Number(value.toPrecision(3)));

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  while (Math.abs(value) >= 1024 && place < units.length - 1) {
    value /= 1024;
    place += 1;
  }
  return `${place ? trim(value) : Math.round(value)} ${units[place]}`;
}

export const rate = (value) => (value === undefined || value === null ? "–" : `${short(value)}/s`);

export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [limit, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (seconds >= limit * 2) return `${trim(seconds / limit)} ${unit}`;
  }
  return `${trim(seconds)} s`;
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });

export const moment = (text) => {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) || time.getTime() <= 0 ? "–" : time.toLocaleString("sv-SE");
};

export const streamPath = (site, stream) => `/streams/${encodeURIComponent(site)}/${encodeURIComponent(stream)}`;

// Returns the JSON of a path, or { error } with a message.
export async function asked(path) {
  try {
    const found = await fetch(path);
    return await found.json();
  } catch {
    return { error: "the console does not answer, or wants you to log in again" };
  }
}

export function badge(level, text = level) {
  return el("span", { class: `badge ${level}` }, text);
}

// Text whose parts between backticks are commands.
export const coded = (text) => text.split("`").map((part, place) => (place % 2 ? el("code", {}, part) : part));

// The strip with one entry for each site, the same on all pages.
export function showSites(place, sites = {}) {
  const entries = Object.entries(sites).map(([name, site]) => {
    const level = site.error ? "bad" : site.known ? "good" : "unknown";
    const said = site.error || (site.known ? `${number(site.streams)} streams, ${rate(site.rate)}` : "not read yet");
    return el(
      "div",
      { class: "site", title: site.server || "" },
      el("span", { class: `dot ${level}` }),
      el("strong", {}, name),
      el("span", { class: "hint" }, `${site.engine ? "engine" : site.known ? "nats-server" : ""} ${said}`),
    );
  });
  place.replaceChildren(...entries);
}
