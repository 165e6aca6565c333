// The theme that was chosen in the playground; without a choice, the system's.
try {
  const theme = JSON.parse(localStorage.getItem("cloche.theme") || '""');
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage is forbidden
}
