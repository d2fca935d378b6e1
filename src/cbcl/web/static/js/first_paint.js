// @ts-check
// Runs before the first paint: keeps room for what was there the last time, so that nothing jumps.

(() => {
  const load = (/** @type {string} */ key) => {
    try {
      return JSON.parse(localStorage.getItem(`cbcl:${key}`) ?? "null");
    } catch {
      return null; // a private window may keep nothing
    }
  };
  const root = document.documentElement;
  root.classList.toggle("live", load("things") > 0 && load("camera-on") === true);
  root.dataset.questions = load("questions") ?? 0;
})();
