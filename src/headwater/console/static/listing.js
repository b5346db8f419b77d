// A page that is one table of all sites, with a filter and a count.
import { number, setText, showSites } from "./dom.js";
import { live } from "./live.js";
import { bindFilter } from "./table.js";

// `noun` is what the rows are; `also(view)` draws what else the page has.
export function liveList(table, noun, also = () => {}) {
  let total = 0;
  const say = () => setText(document.getElementById("count"), `${number(table.shown)} of ${number(total)} ${noun}`);
  bindFilter(document.getElementById("filter"), table, say);
  live((view) => {
    showSites(document.getElementById("sites"), view.sites);
    total = view.total;
    table.show(view.rows);
    say();
    also(view);
  });
}
