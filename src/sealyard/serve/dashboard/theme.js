// Runs before the first paint, so that a page in the dark does not flash.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("sealyard.theme");
  } catch {
    // Storage may be forbidden; the system's theme is then the theme.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
