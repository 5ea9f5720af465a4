/** Generates tensors. Each element depends only on the seed and its index, so NumPy can reproduce it. */

import { byteCount, DATA_TYPES, elements, extent } from "./types.js";

/**
 * @typedef {import("./types.js").TensorDesc} TensorDesc
 * @typedef {{kind: string, [option: string]: any}} Recipe
 */

/** A 32-bit hash of an index and a seed. @param {number} i @param {number} seed */
export function hash(i, seed) {
  let x = (i ^ Math.imul(seed, 0x9e3779b9)) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return (x ^ (x >>> 15)) >>> 0;
}

const BITS24 = 2 ** -24;

/** @type {Record<string, (i: number, recipe: Recipe) => number>} */
const RANDOM = {
  uniform: (i, { seed, low, high }) => low + (hash(i, seed) >>> 8) * BITS24 * (high - low),
  // A sum of twelve is nearly normal and, unlike logarithms and sines, the same on every platform.
  normal: (i, { seed, low, high }) => {
    let sum = 0;
    for (let k = 0; k < 12; k++) sum += hash(i * 12 + k, seed) >>> 8;
    return low + (sum * BITS24 - 6) * high;
  },
  integers: (i, { seed, low, high }) => low + (hash(i, seed) % Math.max(1, high - low + 1)),
};

const FLOAT_LIMITS = {
  FLOAT64: [Number.MAX_VALUE, 2 ** -1022, Number.MIN_VALUE, 2 ** 53 + 2],
  FLOAT32: [(2 - 2 ** -23) * 2 ** 127, 2 ** -126, 2 ** -149, 2 ** 24 + 2],
  FLOAT16: [65504, 2 ** -14, 2 ** -24, 2050],
};

/**
 * Returns values that expose errors: for floats NaN, infinities, signed zeros, subnormals, extremes and ties.
 * @param {string} name of the data type
 * @returns {(number | bigint)[]}
 */
export function specials(name) {
  const type = /** @type {import("./types.js").DataType} */ (DATA_TYPES.get(name));
  if (type.float) {
    const [most, least, tiny, even] = FLOAT_LIMITS[/** @type {keyof typeof FLOAT_LIMITS} */ (name)];
    return [NaN, Infinity, -Infinity, 0, -0, tiny, -tiny, least, most, -most, 0.5, 1.5, 2.5, -0.5, even, 1, 1, -1];
  }
  const bits = BigInt(type.bits);
  const least = type.signed ? -(1n << (bits - 1n)) : 0n;
  const most = least + (1n << bits) - 1n;
  const found = [least, most, 0n, 1n, most - 1n, least + 1n, most / 2n, 2n, 2n];
  return type.bits === 64 ? found : found.map(Number);
}

/**
 * Returns the buffer of a recipe for a desc, gaps included.
 * @param {Recipe} recipe kind is random, ramp, constant or special
 * @param {TensorDesc} desc
 */
export function generate(recipe, desc) {
  const bytes = new Uint8Array(byteCount(desc));
  const to = elements(desc.DataType, bytes);
  const count = extent(desc);
  const isWide = to.type.bits === 64 && !to.type.float;
  const special = recipe.kind === "special" ? specials(desc.DataType) : [];
  /** @type {(i: number) => number | bigint} */
  let value;
  if (recipe.kind === "random") value = (i) => RANDOM[recipe.of](i, recipe);
  else if (recipe.kind === "ramp") value = (i) => recipe.start + i * recipe.step;
  else if (recipe.kind === "special") value = (i) => special[i % special.length];
  else value = constant(recipe.value, isWide);
  for (let i = 0; i < count; i++) {
    const made = value(i);
    to.set(
      i,
      to.type.float
        ? made
        : isWide
        ? BigInt.asIntN(64, typeof made === "bigint" ? made : BigInt(Math.trunc(made)))
        : Math.trunc(Number(made)),
    );
  }
  return bytes;
}

/** @param {unknown} given @param {boolean} isWide @returns {() => number | bigint} */
function constant(given, isWide) {
  const text = String(given).trim();
  const value = isWide && /^-?\d+$/.test(text) ? BigInt(text) : number(text);
  return () => value;
}

/** Parses a number, including nan and inf. @param {string} text */
export function number(text) {
  const named = { nan: NaN, inf: Infinity, "-inf": -Infinity, infinity: Infinity, "-infinity": -Infinity };
  return named[/** @type {keyof typeof named} */ (text.toLowerCase())] ?? Number(text);
}
