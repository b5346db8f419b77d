// Small charts as SVG: a line without axes for tables, and a plot with axes for one stream.
import { bytes, clock, el, svg } from "./dom.js";

export function spark(values = [], width = 110, height = 24) {
  const picture = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  const top = Math.max(...values.map((value) => value ?? 0), 0);
  if (values.length > 1 && top > 0) {
    const points = values.map((value, place) => [
      (place / (values.length - 1)) * width,
      height - 2 - ((value ?? 0) / top) * (height - 4),
    ]);
    picture.append(
      svg("polygon", { points: `0,${height} ${joined(points)} ${width},${height}` }),
      svg("polyline", { points: joined(points) }),
    );
  } else {
    picture.append(svg("line", { x1: 0, x2: width, y1: height - 2, y2: height - 2 }));
  }
  return picture;
}

const joined = (points) => points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");

// `lines` are { title, points: [[seconds, value or null]] }; `format` writes a value.
export function plot(title, lines, format, height = 150) {
  const width = 400;
  const frame = { left: 58, right: 10, top: 10, bottom: 22 };
  const known = lines.flatMap((line) => line.points.filter(([, value]) => value !== null));
  const picture = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const figure = el("figure", { class: "card" }, el("figcaption", {}, title), picture);
  if (known.length < 2) {
    picture.append(svg("text", { x: width / 2, y: height / 2, class: "middle" }, "not enough samples yet"));
    return figure;
  }
  const times = lines.flatMap((line) => line.points.map(([time]) => time));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const top = ceiling(Math.max(...known.map(([, value]) => value)), format === bytes ? 1024 : 1);
  const x = (time) => frame.left + ((time - first) / (last - first || 1)) * (width - frame.left - frame.right);
  const y = (value) => height - frame.bottom - (value / top) * (height - frame.top - frame.bottom);
  for (const share of [0, 0.5, 1]) {
    picture.append(
      svg("line", { class: "grid", x1: frame.left, x2: width - frame.right, y1: y(top * share), y2: y(top * share) }),
      svg("text", { class: "end", x: frame.left - 6, y: y(top * share) + 4 }, format(top * share)),
    );
  }
  picture.append(
    svg("text", { x: frame.left, y: height - 6 }, clock(first)),
    svg("text", { class: "end", x: width - frame.right, y: height - 6 }, clock(last)),
  );
  lines.forEach((line, place) => draw(picture, line.points, x, y, place));
  hover(picture, lines, { x, y, first, last, frame, width, height, format });
  return figure;
}

// A value that was unknown breaks the line.
function draw(picture, points, x, y, place) {
  let run = [];
  const flush = () => {
    if (run.length === 1) picture.append(svg("circle", { class: `line-${place}`, cx: run[0][0], cy: run[0][1], r: 1.5 }));
    if (run.length > 1) picture.append(svg("polyline", { class: `line-${place}`, points: joined(run) }));
    run = [];
  };
  for (const [time, value] of points) {
    if (value === null) flush();
    else run.push([x(time), y(value)]);
  }
  flush();
}

function hover(picture, lines, scale) {
  const mark = svg("line", { class: "mark", y1: scale.frame.top, y2: scale.height - scale.frame.bottom, hidden: true });
  const said = svg("text", { class: "said", y: scale.frame.top + 4 });
  picture.append(mark, said);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width) * scale.width;
    const wanted = scale.first + ((inside - scale.frame.left) / (scale.width - scale.frame.left - scale.frame.right)) * (scale.last - scale.first);
    const found = lines.map((line) => nearest(line.points, wanted)).filter(Boolean);
    if (!found.length) return;
    const at = scale.x(found[0][0]);
    mark.setAttribute("x1", at);
    mark.setAttribute("x2", at);
    mark.removeAttribute("hidden");
    const half = at > scale.width / 2;
    said.setAttribute("x", half ? at - 6 : at + 6);
    said.setAttribute("class", half ? "said end" : "said");
    said.textContent = `${found.map(([, value]) => (value === null ? "unknown" : scale.format(value))).join(" · ")} at ${clock(found[0][0])}`;
  });
  picture.addEventListener("pointerleave", () => {
    mark.setAttribute("hidden", "");
    said.textContent = "";
  });
}

function nearest(points, wanted) {
  return points.reduce((best, point) => (!best || Math.abs(point[0] - wanted) < Math.abs(best[0] - wanted) ? point : best), null);
}

// The next round number above, so that the axis has short labels; of bytes, in the unit in which they are shown.
function ceiling(value, base) {
  if (value <= 0) return 1;
  if (base > 1 && value >= base) return ceiling(value / base, base) * base;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value);
}
