/** Draws slices of tensors, and reads images as tensors. */

/** Colors from low to high, and colors of non-finite values. @type {[number, number, number][]} */
const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const ODD = { nan: [224, 64, 160], positive: [230, 60, 40], negative: [40, 120, 255] };

/** @param {number} part from 0 to 1 */
function color(part) {
  const at = Math.min(0.9999, Math.max(0, part)) * (SCALE.length - 1);
  const i = Math.floor(at);
  return SCALE[i].map((low, k) => low + (SCALE[i + 1][k] - low) * (at - i));
}

const STEPS = 1024;

/** @type {Uint8ClampedArray | null} */
let ramp = null;

/** Returns the color scale in equal steps. */
function steps() {
  if (ramp) return ramp;
  ramp = new Uint8ClampedArray(STEPS * 3);
  for (let i = 0; i < STEPS; i++) ramp.set(color(i / (STEPS - 1)), i * 3);
  return ramp;
}

/** @param {Float64Array[]} channels */
function rangeOf(channels) {
  let min = Infinity;
  let max = -Infinity;
  for (const pixels of channels) {
    for (const pixel of pixels) {
      if (!Number.isFinite(pixel)) continue;
      if (pixel < min) min = pixel;
      if (pixel > max) max = pixel;
    }
  }
  return { min, max };
}

/**
 * Returns the colors of pixels, four bytes each.
 * @param {Float64Array[]} channels one for a heat map, three for a color image
 * @param {{ends: [number, number] | null, isPicture: boolean}} options ends is the range of the scale; null means that of the pixels
 */
export function paint(channels, { ends, isPicture }) {
  const [first] = channels;
  const range = rangeOf(channels);
  const [min, max] = ends ?? [range.min, range.max];
  const scale = max > min ? 1 / (max - min) : 0;
  const colors = steps();
  const rgba = new Uint8ClampedArray(first.length * 4).fill(255);
  for (let i = 0, at = 0; i < first.length; i++, at += 4) {
    const value = first[i];
    if (!Number.isFinite(value)) rgba.set(Number.isNaN(value) ? ODD.nan : value > 0 ? ODD.positive : ODD.negative, at);
    else if (isPicture) {
      for (let k = 0; k < 3; k++) rgba[at + k] = (channels[k % channels.length][i] - min) * scale * 255;
    } else {
      const part = scale ? Math.min(1, Math.max(0, (value - min) * scale)) : 0.5;
      const from = Math.round(part * (STEPS - 1)) * 3;
      rgba[at] = colors[from];
      rgba[at + 1] = colors[from + 1];
      rgba[at + 2] = colors[from + 2];
    }
  }
  return { rgba, min, max };
}

/**
 * Reads an image as the elements of a tensor, scaled to its sizes.
 * @param {Blob} file
 * @param {{DataType: string, Sizes: number[]}} desc of rank 2 to 4
 * @param {{layout: string, scale: string}} options
 * @returns {Promise<Float64Array>} row-major
 */
export async function pictureNumbers(file, { Sizes }, { layout, scale }) {
  const sizes = [1, 1, 1, ...Sizes].slice(-4);
  const [channels, height, width] = layout === "NHWC" ? [sizes[3], sizes[1], sizes[2]] : sizes.slice(1);
  if (![1, 3, 4].includes(channels)) {
    throw new Error(`Sizes have ${channels} channels as ${layout}; an image has 1, 3 or 4`);
  }
  const bitmap = await createImageBitmap(file, { resizeWidth: width, resizeHeight: height, resizeQuality: "high" });
  const canvas = new OffscreenCanvas(width, height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d", {
    willReadFrequently: true,
  }));
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const most = scale === "0..1" ? 255 : 1;
  const count = sizes[0] * channels * height * width;
  const found = new Float64Array(count);
  const plane = height * width;
  for (let k = 0; k < count; k++) {
    const inOne = k % (channels * plane);
    const [pixel, channel] = layout === "NHWC"
      ? [Math.floor(inOne / channels), inOne % channels]
      : [inOne % plane, Math.floor(inOne / plane)];
    const at = pixel * 4;
    const value = channels === 1
      ? (data[at] * 299 + data[at + 1] * 587 + data[at + 2] * 114) / 1000
      : data[at + channel];
    found[k] = value / most;
  }
  return found;
}
