/** Where the server is: this module stands at {base}console/{version}/app/place.js. */

export const base = new URL("../../../", import.meta.url);

/**
 * The address of something the server has.
 * @param {string} path below the base, without a slash in front
 */
export function at(path) {
  return new URL(path, base);
}
