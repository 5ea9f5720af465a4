/** Slices of tensors on a canvas. */

/** Colours from low to high, and those of what is no number. @type {[number, number, number][]} */
const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const ODD = { nan: [224, 64, 160], positive: [230, 60, 40], negative: [40, 120, 255] };

/** @param {number} part from 0 to 1 */
function colour(part) {
  const at = Math.min(0.9999, Math.max(0, part)) * (SCALE.length - 1);
  const i = Math.floor(at);
  return SCALE[i].map((low, k) => low + (SCALE[i + 1][k] - low) * (at - i));
}

/** @param {Float64Array} pixels */
export function range(pixels) {
  let min = Infinity;
  let max = -Infinity;
  for (const pixel of pixels) {
    if (!Number.isFinite(pixel)) continue;
    if (pixel < min) min = pixel;
    if (pixel > max) max = pixel;
  }
  return { min, max };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{rows: number, columns: number, pixels: Float64Array}[]} channels one for a heat map, three for a colour picture
 * @param {{min: number, max: number, isPicture: boolean}} options
 */
export function draw(canvas, channels, { min, max, isPicture }) {
  const { rows, columns } = channels[0];
  canvas.width = columns;
  canvas.height = rows;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(columns, rows);
  const scale = max > min ? 1 / (max - min) : 0;
  for (let i = 0; i < rows * columns; i++) {
    const value = channels[0].pixels[i];
    let rgb;
    if (Number.isNaN(value)) rgb = ODD.nan;
    else if (!Number.isFinite(value)) rgb = value > 0 ? ODD.positive : ODD.negative;
    else if (isPicture) rgb = [0, 1, 2].map((k) => (channels[k % channels.length].pixels[i] - min) * scale * 255);
    else rgb = colour(scale ? (value - min) * scale : 0.5);
    image.data.set([rgb[0], rgb[1], rgb[2], 255], i * 4);
  }
  context.putImageData(image, 0, 0);
}

/**
 * A picture as numbers for a tensor, scaled to its sizes.
 * @param {Blob} file
 * @param {{DataType: string, Sizes: number[]}} desc of rank 2 to 4
 * @param {{layout: string, scale: string}} options
 * @returns {Promise<number[]>} row-major
 */
export async function pictureNumbers(file, { Sizes }, { layout, scale }) {
  const sizes = [1, 1, 1, ...Sizes].slice(-4);
  const [channels, height, width] = layout === "NHWC" ? [sizes[3], sizes[1], sizes[2]] : sizes.slice(1);
  if (![1, 3, 4].includes(channels)) {
    throw new Error(`${channels} channels given by Sizes as ${layout}; a picture has 1, 3 or 4`);
  }
  const bitmap = await createImageBitmap(file, { resizeWidth: width, resizeHeight: height, resizeQuality: "high" });
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const most = scale === "0..1" ? 255 : 1;
  const count = sizes[0] * channels * height * width;
  const found = new Array(count);
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
