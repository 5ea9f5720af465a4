/** Session storage, with an in-memory fallback if the browser provides none. */

/** @type {Map<string, string>} */
const memory = new Map();

/** @param {string} name */
export function recall(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return memory.get(name) ?? null;
  }
}

/** @param {string} name @param {string | null} value */
export function remember(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  } catch {
    if (value === null) memory.delete(name);
    else memory.set(name, value);
  }
}
