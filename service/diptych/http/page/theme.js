// Before the first paint, so that a remembered theme does not flash: this is the one script that is no module.

(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const kept = () => {
    try {
      return localStorage.getItem("diptych.theme");
    } catch {
      return null; // a browser that keeps nothing
    }
  };
  const keep = (theme) => {
    try {
      if (theme) localStorage.setItem("diptych.theme", theme);
      else localStorage.removeItem("diptych.theme");
    } catch {
      // then it holds until the page is closed
    }
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => document.getElementById("theme")?.setAttribute("aria-pressed", String(isDark()));
  const apply = (theme) => {
    if (theme === "dark" || theme === "light") root.dataset.theme = theme;
    else delete root.dataset.theme;
    label();
  };

  apply(kept());
  system.addEventListener("change", label);
  document.addEventListener("DOMContentLoaded", () => {
    label();
    document.getElementById("theme").addEventListener("click", () => {
      const wanted = isDark() ? "light" : "dark";
      // Back at what the system says, the page follows the system again.
      const theme = wanted === (system.matches ? "dark" : "light") ? null : wanted;
      apply(theme);
      keep(theme);
    });
  });
})();
