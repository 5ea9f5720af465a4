/** Statistics, histograms and down-sampled slices of tensors. */

import { addressOf, elementCount, elements, elementStrides } from "./types.js";

/** @typedef {import("./types.js").TensorDesc} TensorDesc */

export const BINS = 64;

/**
 * Returns minimum, maximum and mean of the finite elements, and the numbers of NaN, infinite and zero elements.
 * @param {TensorDesc} desc @param {Uint8Array<ArrayBuffer>} bytes
 */
export function statistics(desc, bytes) {
  const { get, type } = elements(desc.DataType, bytes);
  const address = addressOf(desc);
  const count = elementCount(desc);
  /** @type {number | bigint | null} */
  let min = null;
  /** @type {number | bigint | null} */
  let max = null;
  let sum = 0;
  let nan = 0;
  let positive = 0;
  let negative = 0;
  let zeros = 0;
  for (let k = 0; k < count; k++) {
    const value = get(address(k));
    if (type.float) {
      if (value !== value) {
        nan++;
        continue;
      }
      if (value === Infinity) {
        positive++;
        continue;
      }
      if (value === -Infinity) {
        negative++;
        continue;
      }
    }
    if (value == 0) zeros++;
    if (min === null || value < min) min = value;
    if (max === null || value > max) max = value;
    sum += Number(value);
  }
  const finite = count - nan - positive - negative;
  return { count, min, max, mean: finite ? sum / finite : null, nan, positive, negative, zeros, finite };
}

/**
 * Counts the finite elements in bins of equal width.
 * @param {TensorDesc} desc @param {Uint8Array<ArrayBuffer>} bytes
 * @param {number} min @param {number} max
 */
export function histogram(desc, bytes, min, max) {
  const { get } = elements(desc.DataType, bytes);
  const address = addressOf(desc);
  const count = elementCount(desc);
  const bins = new Array(BINS).fill(0);
  const scale = max > min ? BINS / (max - min) : 0;
  for (let k = 0; k < count; k++) {
    const value = Number(get(address(k)));
    if (value >= min && value <= max) bins[Math.min(BINS - 1, Math.floor((value - min) * scale))]++;
  }
  return { bins, min, max };
}

/**
 * A 2-D slice.
 * @typedef {{rows: number, columns: number, others: number[]}} Slice rows is -1 if the tensor has one dimension;
 *   others has an index for each dimension
 */

/** @param {TensorDesc} desc @param {Slice} slice */
function sliceOf(desc, slice) {
  const strides = elementStrides(desc);
  let start = 0;
  desc.Sizes.forEach((_, i) => {
    if (i !== slice.rows && i !== slice.columns) start += (slice.others[i] ?? 0) * strides[i];
  });
  const height = slice.rows < 0 ? 1 : desc.Sizes[slice.rows];
  return {
    height,
    width: desc.Sizes[slice.columns],
    address: (/** @type {number} */ row, /** @type {number} */ column) =>
      start + (slice.rows < 0 ? 0 : row * strides[slice.rows]) + column * strides[slice.columns],
  };
}

/**
 * Returns part of a slice, element by element.
 * @param {TensorDesc} desc @param {Uint8Array<ArrayBuffer>} bytes @param {Slice} slice
 * @param {{row: number, column: number, height: number, width: number}} part
 */
export function window2d(desc, bytes, slice, part) {
  const { get, array } = elements(desc.DataType, bytes);
  const { height, width, address } = sliceOf(desc, slice);
  const rows = [];
  for (let row = part.row; row < Math.min(height, part.row + part.height); row++) {
    const cells = [];
    for (let column = part.column; column < Math.min(width, part.column + part.width); column++) {
      const at = address(row, column);
      cells.push({ value: get(at), at });
    }
    rows.push(cells);
  }
  return { rows, array, height, width };
}

export const MOST_PIXELS = 512;

/**
 * A slice drawn small: each pixel is the mean of a block, or its element of greatest size; blocks that hold a NaN or an
 * infinity show it.
 * @param {TensorDesc} desc @param {Uint8Array<ArrayBuffer>} bytes @param {Slice} slice
 * @param {"mean" | "extreme"} by
 */
export function sample(desc, bytes, slice, by) {
  const { get } = elements(desc.DataType, bytes);
  const { height, width, address } = sliceOf(desc, slice);
  const rows = Math.min(height, MOST_PIXELS);
  const columns = Math.min(width, MOST_PIXELS);
  const pixels = new Float64Array(rows * columns);
  for (let y = 0; y < rows; y++) {
    const top = Math.floor((y * height) / rows);
    const bottom = Math.max(top + 1, Math.floor(((y + 1) * height) / rows));
    for (let x = 0; x < columns; x++) {
      const left = Math.floor((x * width) / columns);
      const right = Math.max(left + 1, Math.floor(((x + 1) * width) / columns));
      let sum = 0;
      let extreme = 0;
      let odd = 0;
      for (let row = top; row < bottom; row++) {
        for (let column = left; column < right; column++) {
          const value = Number(get(address(row, column)));
          if (!Number.isFinite(value)) odd = Number.isNaN(value) || Number.isNaN(odd) ? NaN : value;
          sum += value;
          if (Math.abs(value) > Math.abs(extreme)) extreme = value;
        }
      }
      const mean = sum / ((bottom - top) * (right - left));
      pixels[y * columns + x] = Number.isFinite(odd) ? (by === "mean" ? mean : extreme) : odd;
    }
  }
  return { rows, columns, pixels, height, width };
}
