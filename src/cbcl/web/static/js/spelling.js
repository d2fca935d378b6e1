// @ts-check
// Names that differ only in case or space are one thing to people: "Cup" and "cup ".

/**
 * Write a name without what people vary.
 * @param {string} name
 */
const spelling = (name) => name.trim().toLowerCase().split(/\s+/).join(" ");

/**
 * Find a known name that another one differs from only in case or space; null: it is known itself.
 * @param {string} name
 * @param {string[]} names
 * @returns {string | null}
 */
export function findSpelledAlike(name, names) {
  const own = spelling(name);
  if (!own || names.includes(name.trim())) return null;
  return names.find((known) => spelling(known) === own) ?? null;
}
