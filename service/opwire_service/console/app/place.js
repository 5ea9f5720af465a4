/** The base URL of the server: this module is {base}console/{version}/app/place.js. */

export const base = new URL("../../../", import.meta.url);

/**
 * Returns the URL of a resource of the server.
 * @param {string} path relative to the base, without a leading slash
 */
export function at(path) {
  return new URL(path, base);
}
