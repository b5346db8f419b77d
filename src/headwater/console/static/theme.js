// Applies the chosen colours before the page is drawn; without a choice the system decides.
(() => {
  const key = "headwater-theme";
  const root = document.documentElement;
  const stored = localStorage.getItem(key);
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  const isDark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.addEventListener("DOMContentLoaded", () => {
    // On a phone the menu scrolls: the page that is open must be in sight.
    const menu = document.querySelector(".top nav");
    const current = menu?.querySelector("[aria-current]");
    if (current) menu.scrollLeft = current.offsetLeft - menu.offsetLeft - 8;
    document.getElementById("theme")?.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      localStorage.setItem(key, root.dataset.theme);
    });
  });
})();
