// The map: a band for each site, boxes for streams, curves for copies. Positions come from the server.
import { badge, el, number, rate, setText, short, showSites, streamPath, svg } from "./dom.js";
import { live } from "./live.js";
import { once, Table } from "./table.js";

const place = document.getElementById("map");
const links = new Table(
  document.getElementById("links"),
  [
    { key: "name", title: "Link" },
    { key: "health", title: "State", draw: (cell, row) => once(cell, [row.health, row.why], () => [badge(row.health), row.why ? ` ${row.why}` : ""]) },
    { key: "copies", title: "Copies", align: "right", text: (row) => number(row.copies) },
    { key: "rate", title: "Rate", align: "right", text: (row) => rate(row.rate) },
    { key: "lag", title: "Lag", align: "right", text: (row) => (row.lag ?? null) === null ? "unknown" : short(row.lag) },
  ],
  { empty: "no stream is copied between sites" },
);
const LABEL = [136, 17]; // the room for a label
const NAME = [300, 30]; // the room for the name of a site
const SHARES = [0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2];
let shape = "";
let taken = []; // the boxes that no label may cover
let drawn = { nodes: new Map(), edges: new Map(), bands: new Map() };

live((view) => {
  showSites(document.getElementById("sites"), view.sites);
  const wanted = JSON.stringify([view.width, boxes(view.bands), boxes(view.nodes), Object.keys(view.edges)]);
  if (wanted !== shape) {
    shape = wanted;
    build(view);
  }
  update(view);
  links.show(Object.fromEntries(Object.entries(view.links).map(([name, link]) => [name, { name, ...link }])));
});

const boxes = (things) => Object.entries(things).map(([key, thing]) => [key, thing.box]);

function build(view) {
  drawn = { nodes: new Map(), edges: new Map(), bands: new Map() };
  const width = Math.max(view.width, 320) + 2;
  const height = Math.max(view.height, 40) + 2;
  const picture = svg("svg", { viewBox: `-1 -1 ${width} ${height}`, role: "group", "aria-label": "Sites, streams and copies" });
  const nodes = Object.values(view.nodes).map((node) => node.box);
  taken = [...nodes, ...Object.values(view.bands).map((band) => [band.box[0], band.box[1], ...NAME])];
  for (const [key, band] of Object.entries(view.bands)) picture.append(bandOf(key, band));
  for (const [key, edge] of Object.entries(view.edges)) picture.append(edgeOf(key, edge, view.nodes));
  for (const [key, node] of Object.entries(view.nodes)) picture.append(nodeOf(key, node));
  for (const parts of drawn.edges.values()) picture.append(parts.label);
  // A small map is drawn a little larger where there is room.
  picture.style.width = `min(100%, ${Math.round(width * 1.25)}px)`;
  picture.style.minWidth = `${width}px`;
  place.replaceChildren(picture);
  if (!Object.keys(view.nodes).length) place.append(el("p", { class: "hint" }, "no streams yet"));
}

function bandOf(key, band) {
  const [x, y, width, height] = band.box;
  const said = svg("text", { x: x + 14, y: y + 21, class: "band-name" });
  drawn.bands.set(key, said);
  const group = svg("g", { class: "band" }, svg("rect", { x, y, width, height, rx: 10 }), said);
  if (band.more) {
    const more = svg("text", { x: x + width - 14, y: y + 21, class: "end more" }, `and ${number(band.more)} more streams`);
    group.append(svg("a", { href: `/streams?site=${encodeURIComponent(key)}` }, more));
  }
  return group;
}

function nodeOf(key, node) {
  const [x, y, width, height] = node.box;
  const box = svg("rect", { x, y, width, height, rx: 7 });
  const name = svg("text", { x: x + 12, y: y + 17, class: "name" }, cut(node.name, 24));
  const said = svg("text", { x: x + 12, y: y + 32, class: "said" });
  const title = svg("title");
  const group = svg("g", {}, title, box, svg("rect", { class: "side", x, y, width: 5, height, rx: 2 }), name, said);
  drawn.nodes.set(key, { group, said, title });
  return node.known ? svg("a", { href: streamPath(node.site, node.name) }, group) : group;
}

function edgeOf(key, edge, nodes) {
  const [from, to] = [nodes[edge.from].box, nodes[edge.to].box];
  const [x1, y1] = [from[0] + from[2], from[1] + from[3] / 2];
  const [x2, y2] = [to[0], to[1] + to[3] / 2];
  const bend = Math.max(50, Math.abs(x2 - x1) / 2);
  const path = `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
  const curve = svg("path", { d: path, class: "curve" });
  const title = svg("title");
  const [x, y] = freeSpot(SHARES.map((share) => [along(x1, x1 + bend, x2 - bend, x2, share), along(y1, y1, y2, y2, share) - 4]));
  const label = svg("text", { x, y, class: "middle label" });
  const group = svg("g", {}, title, svg("path", { d: path, class: "touch" }), curve);
  drawn.edges.set(key, { group, curve, label, title });
  return svg("a", { href: `/upstreams/${encodeURIComponent(edge.site)}/${encodeURIComponent(edge.stream)}/${edge.place}`, "aria-label": `${edge.kind} of ${edge.stream}` }, group);
}

// The first of some spots where a label covers no box, no name of a site and no other label; else the first of all.
function freeSpot(spots) {
  const found = spots.find((spot) => !taken.some((box) => overlaps(labelBox(spot), box))) || spots[0];
  taken.push(labelBox(found));
  return found;
}

const labelBox = ([x, y]) => [x - LABEL[0] / 2, y - LABEL[1] + 3, ...LABEL];
const overlaps = (one, other) =>
  one[0] < other[0] + other[2] && other[0] < one[0] + one[2] && one[1] < other[1] + other[3] && other[1] < one[1] + one[3];

// The coordinate of a point of a Bézier curve.
function along(a, b, c, d, share) {
  const rest = 1 - share;
  return rest ** 3 * a + 3 * rest ** 2 * share * b + 3 * rest * share ** 2 * c + share ** 3 * d;
}

function update(view) {
  for (const [key, text] of drawn.bands) {
    const site = view.sites[key];
    setText(text, site ? `${key} · ${site.error ? "does not answer" : site.engine ? "engine" : "nats-server"} · ${number(site.streams)} streams · ${rate(site.rate)}` : view.bands[key].name);
    text.classList.toggle("bad", Boolean(site?.error));
  }
  for (const [key, parts] of drawn.nodes) {
    const node = view.nodes[key];
    parts.group.setAttribute("class", `node ${node.health}${node.known ? "" : " outside"}`);
    setText(parts.said, node.known ? `${short(node.messages)} messages · ${rate(node.rate)}` : node.site ? "does not exist" : "at a site that is not watched");
    setText(parts.title, node.why ? `${node.name}: ${node.why}` : node.name);
  }
  for (const [key, parts] of drawn.edges) {
    const edge = view.edges[key];
    parts.group.setAttribute("class", `edge ${edge.health}${edge.rate > 0 ? " flows" : ""}`);
    setText(parts.label, edgeText(edge));
    parts.label.setAttribute("class", `middle label ${edge.health}`);
    setText(parts.title, `${edge.kind} ${edge.from} → ${edge.to}${edge.why ? `: ${edge.why}` : ""}`);
  }
}

function edgeText(edge) {
  const lag = (edge.lag ?? null) === null ? "lag unknown" : edge.lag ? `lag ${short(edge.lag)}` : "";
  const speed = edge.rate ? rate(edge.rate) : "";
  return [speed, lag, ["stalled", "retrying"].includes(edge.phase) ? edge.phase : ""].filter(Boolean).join(" · ");
}

const cut = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
