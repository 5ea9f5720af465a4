/** Numbers as JSON text. */

/**
 * Nested lists of numbers, and strings for those that JSON lacks. JSON.stringify would write -0 as 0.
 * @param {any} data @returns {string}
 */
export function writeNumbers(data) {
  if (Array.isArray(data)) return `[${data.map(writeNumbers).join(", ")}]`;
  return Object.is(data, -0) ? "-0.0" : JSON.stringify(data);
}
