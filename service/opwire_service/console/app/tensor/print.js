/** Formats elements as the shortest decimal that round-trips in their type. */

import { DATA_TYPES, halfTable, toHalf } from "./types.js";

/** @param {number} value @param {number} most digits @param {(text: string) => boolean} reads */
function shortest(value, most, reads) {
  for (let digits = 1; digits <= most; digits++) {
    const text = String(Number(value.toPrecision(digits)));
    if (reads(text)) return text;
  }
  return String(value);
}

/**
 * @param {string} name of the data type
 * @param {number | bigint} value
 */
export function print(name, value) {
  if (typeof value === "bigint") return value.toString();
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (Object.is(value, -0)) return "-0";
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 24 && name !== "FLOAT16") return String(value);
  if (name === "FLOAT32") return shortest(value, 9, (text) => Math.fround(Number(text)) === value);
  if (name === "FLOAT16") return shortest(value, 5, (text) => halfTable()[toHalf(Number(text))] === value);
  return String(value);
}

/**
 * Returns the bit pattern of an element in hexadecimal, such as 0x3f800000.
 * @param {string} name @param {any} array @param {number} i
 */
export function bitsOf(name, array, i) {
  const bits = DATA_TYPES.get(name)?.bits ?? 8;
  if (bits === 4) return `0x${((array[i >> 1] >> ((i & 1) * 4)) & 15).toString(16)}`;
  const bytes = new Uint8Array(array.buffer, array.byteOffset + i * array.BYTES_PER_ELEMENT, array.BYTES_PER_ELEMENT);
  return `0x${[...bytes].reverse().map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
