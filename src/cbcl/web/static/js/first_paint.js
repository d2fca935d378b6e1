// Runs before the first paint: keeps room for what was there the last time, so that nothing jumps when it comes.

(() => {
  const kept = (key) => {
    try {
      return JSON.parse(localStorage.getItem(`cbcl:${key}`));
    } catch {
      return null; // a private window may keep nothing
    }
  };
  const root = document.documentElement;
  root.classList.toggle("live", kept("things") > 0 && kept("camera-on") === true);
  root.dataset.questions = kept("questions") ?? 0;
})();
