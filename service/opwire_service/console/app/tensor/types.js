/** Data types and memory layout of tensors. */

/**
 * @typedef {{name: string, bits: number, float: boolean, signed: boolean, numpy: string | null}} DataType
 * @typedef {{DataType: string, Sizes: number[], Strides?: number[] | null, TotalTensorSizeInBytes?: number}} TensorDesc
 */

/** @type {Map<string, DataType>} */
export const DATA_TYPES = new Map(/** @type {[string, number, string | null][]} */ ([
  ["FLOAT64", 64, "<f8"],
  ["FLOAT32", 32, "<f4"],
  ["FLOAT16", 16, "<f2"],
  ["INT64", 64, "<i8"],
  ["UINT64", 64, "<u8"],
  ["INT32", 32, "<i4"],
  ["UINT32", 32, "<u4"],
  ["INT16", 16, "<i2"],
  ["UINT16", 16, "<u2"],
  ["INT8", 8, "|i1"],
  ["UINT8", 8, "|u1"],
  ["INT4", 4, null],
  ["UINT4", 4, null],
]).map((
  [name, bits, numpy],
) => [name, { name, bits, numpy, float: name.startsWith("F"), signed: !name.startsWith("U") }]));

const BY_CODE = [
  "",
  "FLOAT32",
  "FLOAT16",
  "UINT32",
  "UINT16",
  "UINT8",
  "INT32",
  "INT16",
  "INT8",
  "FLOAT64",
  "UINT64",
  "INT64",
  "UINT4",
  "INT4",
];

/**
 * Returns a data type by name, full name or number.
 * @param {unknown} given @returns {DataType | undefined}
 */
export function dataType(given) {
  const name = typeof given === "number" ? BY_CODE[given] : String(given).replace("DML_TENSOR_DATA_TYPE_", "");
  return DATA_TYPES.get(name);
}

/** @param {TensorDesc} desc */
export function elementCount(desc) {
  return desc.Sizes.reduce((product, size) => product * size, 1);
}

/** Number of elements from the first to the last address. @param {TensorDesc} desc */
export function extent(desc) {
  const strides = desc.Strides;
  return strides ? desc.Sizes.reduce((sum, size, i) => sum + (size - 1) * strides[i], 1) : elementCount(desc);
}

/** @param {TensorDesc} desc */
export function byteCount(desc) {
  return Math.ceil((extent(desc) * (dataType(desc.DataType)?.bits ?? 0)) / 8);
}

/** @param {TensorDesc} desc @returns {number[]} */
export function elementStrides(desc) {
  if (desc.Strides) return desc.Strides;
  const strides = new Array(desc.Sizes.length).fill(1);
  for (let i = strides.length - 2; i >= 0; i--) strides[i] = strides[i + 1] * desc.Sizes[i + 1];
  return strides;
}

/**
 * Returns a function for the address of the k-th element in row-major order.
 * @param {TensorDesc} desc @returns {(k: number) => number}
 */
export function addressOf(desc) {
  if (!desc.Strides) return (k) => k;
  const { Sizes, Strides } = desc;
  return (k) => {
    let address = 0;
    for (let i = Sizes.length - 1; i >= 0; i--) {
      address += (k % Sizes[i]) * Strides[i];
      k = Math.floor(k / Sizes[i]);
    }
    return address;
  };
}

/** Returns why a value is not a tensor desc; undefined if it is one. @param {any} desc */
export function descMistake(desc) {
  if (!desc || typeof desc !== "object") return "not an object";
  if (!dataType(desc.DataType)) return "unknown DataType";
  const isCount = (/** @type {unknown} */ size) => Number.isSafeInteger(size) && Number(size) >= 0;
  if (
    !Array.isArray(desc.Sizes) || !desc.Sizes.length ||
    !desc.Sizes.every((/** @type {number} */ s) => isCount(s) && s > 0)
  ) {
    return "invalid Sizes";
  }
  const strides = desc.Strides;
  if (strides && !(Array.isArray(strides) && strides.length === desc.Sizes.length && strides.every(isCount))) {
    return "Strides do not match Sizes";
  }
  return undefined;
}

let halves = /** @type {Float32Array | null} */ (null);

/** Returns the values of all 65,536 FLOAT16 bit patterns. */
export function halfTable() {
  if (halves) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    const size = exponent === 31
      ? (fraction ? NaN : Infinity)
      : exponent
      ? (1024 + fraction) * 2 ** (exponent - 25)
      : fraction * 2 ** -24;
    halves[bits] = bits & 32768 ? -size : size;
  }
  return halves;
}

/** @param {number} value */
function roundHalfToEven(value) {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

const DOUBLE = new Float64Array(1);
const WORDS = new Uint32Array(DOUBLE.buffer);

/** Returns the bits of the FLOAT16 nearest to a number, ties to even. @param {number} value */
export function toHalf(value) {
  if (Number.isNaN(value)) return 0x7e00;
  DOUBLE[0] = value;
  const sign = (WORDS[1] >>> 31) << 15;
  const size = Math.abs(value);
  if (size >= 65520) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | roundHalfToEven(size * 2 ** 24);
  const exponent = ((WORDS[1] >>> 20) & 2047) - 1023;
  return sign | (((exponent + 15) << 10) + roundHalfToEven(size * 2 ** (10 - exponent)) - 1024);
}

const ARRAYS = {
  FLOAT64: Float64Array,
  FLOAT32: Float32Array,
  FLOAT16: Uint16Array,
  INT64: BigInt64Array,
  UINT64: BigUint64Array,
  INT32: Int32Array,
  UINT32: Uint32Array,
  INT16: Int16Array,
  UINT16: Uint16Array,
  INT8: Int8Array,
  UINT8: Uint8Array,
  INT4: Uint8Array,
  UINT4: Uint8Array,
};

/**
 * Provides access to the elements of a buffer by address; get returns a number, or a BigInt for 64-bit integers.
 * @param {string} name of the data type
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
export function elements(name, bytes) {
  const type = /** @type {DataType} */ (DATA_TYPES.get(name));
  const kind = ARRAYS[/** @type {keyof typeof ARRAYS} */ (name)];
  const whole = bytes.byteLength - (bytes.byteLength % kind.BYTES_PER_ELEMENT);
  const isAligned = bytes.byteOffset % kind.BYTES_PER_ELEMENT === 0;
  const aligned = isAligned ? bytes : bytes.slice();
  const array = /** @type {any} */ (new kind(aligned.buffer, aligned.byteOffset, whole / kind.BYTES_PER_ELEMENT));
  /** @type {(i: number) => number | bigint} */
  let get = (i) => array[i];
  /** @type {(i: number, value: number | bigint) => void} */
  let set = (i, value) => {
    array[i] = value;
  };
  if (type.bits === 4) {
    const sign = type.signed ? 8 : 0;
    get = (i) => (((array[i >> 1] >> ((i & 1) * 4)) & 15) ^ sign) - sign;
    set = (i, value) => {
      const shift = (i & 1) * 4;
      array[i >> 1] = (array[i >> 1] & ~(15 << shift)) | ((Number(value) & 15) << shift);
    };
  } else if (name === "FLOAT16") {
    const table = halfTable();
    get = (i) => table[array[i]];
    set = (i, value) => {
      array[i] = toHalf(Number(value));
    };
  } else if (type.bits === 64 && !type.float) {
    set = (i, value) => {
      array[i] = BigInt(value);
    };
  }
  return { type, get, set, array, count: Math.floor((bytes.byteLength * 8) / type.bits) };
}
