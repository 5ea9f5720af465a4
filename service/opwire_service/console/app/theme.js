// Runs before the first paint, so that the page does not flash in the wrong theme.
try {
  const chosen = localStorage.getItem("opwire-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is disabled: keep the system theme.
}
