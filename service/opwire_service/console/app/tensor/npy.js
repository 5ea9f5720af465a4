/** NumPy .npy files: versions 1 to 3, little and big endian, C and Fortran order. */

import { DATA_TYPES } from "./types.js";

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

/**
 * @typedef {{dataType: string, shape: number[], bytes: Uint8Array<ArrayBuffer>}} Stored elements are row-major and little endian
 */

/**
 * @param {ArrayBuffer} buffer
 * @returns {Stored}
 * @throws {Error} if it is not a .npy file or has an unsupported type; the message says why
 */
export function readNpy(buffer) {
  const view = new DataView(buffer);
  const latin = new TextDecoder("latin1");
  if (buffer.byteLength < 10 || !MAGIC.every((byte, i) => view.getUint8(i) === byte)) {
    throw new Error("not a .npy file");
  }
  const version = view.getUint8(6);
  if (version < 1 || version > 3) throw new Error(`.npy version ${version} given; supported: 1 to 3`);
  const start = version === 1 ? 10 : 12;
  const length = version === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (start + length > buffer.byteLength) throw new Error("the file header is truncated");
  const head = latin.decode(new Uint8Array(buffer, start, length));
  const descr = /'descr':\s*'([^']*)'/.exec(head)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(head)?.[1];
  const dims = /'shape':\s*\(([^)]*)\)/.exec(head)?.[1];
  if (descr === undefined || order === undefined || dims === undefined) {
    throw new Error("the file header is invalid");
  }
  const shape = dims.split(",").map((text) => text.trim()).filter(Boolean).map(Number);
  const known = [...DATA_TYPES.values()].find((type) =>
    type.numpy?.slice(1) === (descr === "|b1" ? "u1" : descr.slice(1))
  );
  if (!known) throw new Error(`element type ${descr} is not supported`);
  const size = known.bits / 8;
  const count = shape.reduce((product, each) => product * each, 1);
  if (start + length + count * size > buffer.byteLength) throw new Error("the file is truncated");
  let bytes = new Uint8Array(buffer.slice(start + length, start + length + count * size));
  if (descr[0] === ">") swap(bytes, size);
  if (order === "True" && shape.length > 1) bytes = rowMajor(bytes, shape, size);
  return { dataType: known.name, shape, bytes };
}

/** @param {Uint8Array} bytes @param {number} size */
function swap(bytes, size) {
  for (let i = 0; i < bytes.length; i += size) bytes.subarray(i, i + size).reverse();
}

/** @param {Uint8Array<ArrayBuffer>} bytes column-major @param {number[]} shape @param {number} size of an element */
function rowMajor(bytes, shape, size) {
  const found = new Uint8Array(bytes.length);
  const index = new Array(shape.length).fill(0);
  const strides = shape.map((_, i) => shape.slice(0, i).reduce((product, each) => product * each, 1));
  let address = 0;
  for (let to = 0; to < bytes.length; to += size) {
    for (let byte = 0; byte < size; byte++) found[to + byte] = bytes[address * size + byte];
    for (let i = shape.length - 1; i >= 0; i--) {
      address += strides[i];
      if (++index[i] < shape[i]) break;
      address -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
  return found;
}

/**
 * Returns the header of a version 1 file, padded to a multiple of 64 bytes.
 * @param {string} name of the data type @param {number[]} shape
 */
export function npyHead(name, shape) {
  const numpy = DATA_TYPES.get(name)?.numpy;
  if (!numpy) throw new Error(`NumPy has no ${name}`);
  const tuple = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${numpy}', 'fortran_order': False, 'shape': (${tuple}), }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64 - 10;
  const head = new Uint8Array(10 + length).fill(32);
  head.set([...MAGIC, 1, 0, length & 255, length >> 8]);
  head.set(new TextEncoder().encode(text), 10);
  head[head.length - 1] = 10;
  return head;
}
