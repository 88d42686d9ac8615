// Runs before the first paint, so that the dark theme does not flash.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("sealyard.theme");
  } catch {
    // Storage may be blocked; the system theme applies then.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
