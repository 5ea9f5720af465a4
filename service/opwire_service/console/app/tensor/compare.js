/** Compares two tensors of the same type and sizes, element by element. */

import { addressOf, elementCount, elements } from "./types.js";

/** @typedef {import("./types.js").TensorDesc} TensorDesc */

/**
 * Returns the rank of a float among all of its type: adjacent floats differ by one, and both zeros are 0.
 * @param {bigint} bits @param {bigint} sign
 */
function rank(bits, sign) {
  return bits & sign ? -(bits ^ sign) : bits;
}

/**
 * Returns a function for distances in units in the last place (ULP).
 * @param {string} name @param {any} array @param {any} other
 * @returns {(i: number, j: number) => number}
 */
function distanceIn(name, array, other) {
  if (name === "FLOAT16") {
    const place = (/** @type {number} */ bits) => (bits & 0x8000 ? -(bits ^ 0x8000) : bits);
    return (i, j) => Math.abs(place(array[i]) - place(other[j]));
  }
  if (name === "FLOAT32") {
    const a = new Int32Array(array.buffer, array.byteOffset, array.length);
    const b = new Int32Array(other.buffer, other.byteOffset, other.length);
    const place = (/** @type {number} */ bits) => (bits < 0 ? -(bits & 0x7fffffff) : bits);
    return (i, j) => Math.abs(place(a[i]) - place(b[j]));
  }
  const a = new BigInt64Array(array.buffer, array.byteOffset, array.length);
  const b = new BigInt64Array(other.buffer, other.byteOffset, other.length);
  const sign = 1n << 63n;
  return (i, j) => {
    const distance = rank(BigInt.asUintN(64, a[i]), sign) - rank(BigInt.asUintN(64, b[j]), sign);
    return Number(distance < 0n ? -distance : distance);
  };
}

/** Elements in the list of the worst. */
const WORST = 10;

/** Keeps the elements that are furthest apart, in order. */
class Worst {
  constructor() {
    /** @type {{k: number, value: number | bigint, other: number | bigint, ulp: number, apart: number}[]} */
    this.elements = [];
  }

  /** @param {number} k @param {number | bigint} value @param {number | bigint} other @param {number} ulp @param {number} apart */
  add(k, value, other, ulp, apart) {
    if (this.elements.length === WORST && ulp <= this.elements[WORST - 1].ulp) return;
    const after = this.elements.findIndex((each) => each.ulp < ulp);
    this.elements.splice(after < 0 ? this.elements.length : after, 0, { k, value, other, ulp, apart });
    this.elements.length = Math.min(WORST, this.elements.length);
  }
}

/**
 * Measures how far two tensors differ. Elements are equal if their bits are, or if both are NaN.
 * @param {TensorDesc} desc @param {Uint8Array<ArrayBuffer>} bytes
 * @param {TensorDesc} otherDesc @param {Uint8Array<ArrayBuffer>} otherBytes
 */
export function compare(desc, bytes, otherDesc, otherBytes) {
  const a = elements(desc.DataType, bytes);
  const b = elements(otherDesc.DataType, otherBytes);
  const addressA = addressOf(desc);
  const addressB = addressOf(otherDesc);
  const count = elementCount(desc);
  const distance = a.type.float ? distanceIn(desc.DataType, a.array, b.array) : null;
  let equal = 0;
  let most = 0;
  let sum = 0;
  let compared = 0;
  let unlike = 0;
  let absolute = 0;
  let first = -1;
  const difference = new Float64Array(count);
  const ulps = new Float64Array(count);
  const worst = new Worst();
  for (let k = 0; k < count; k++) {
    const i = addressA(k);
    const j = addressB(k);
    const x = a.get(i);
    const y = b.get(j);
    if (Object.is(x, y)) {
      equal++;
      continue;
    }
    if (first < 0) first = k;
    const apart = Math.abs(typeof x === "bigint" && typeof y === "bigint" ? Number(x - y) : Number(x) - Number(y));
    difference[k] = apart;
    if (Number.isNaN(apart)) { // one of the two is NaN
      unlike++;
      ulps[k] = NaN;
      worst.add(k, x, y, Infinity, apart);
      continue;
    }
    if (apart > absolute) absolute = apart;
    const ulp = distance ? distance(i, j) : apart;
    ulps[k] = ulp;
    worst.add(k, x, y, ulp, apart);
    most = Math.max(most, ulp);
    sum += ulp;
    compared++;
  }
  return {
    count,
    equal,
    first,
    unlike,
    absolute,
    mostUlp: most,
    meanUlp: sum / Math.max(1, compared + equal),
    worst: worst.elements,
    difference,
    ulps,
  };
}
