/** Operator and tensor descs in the variants that DxDispatch accepts. */

/** Returns the members of a desc, in any place where DxDispatch accepts them. @param {any} value */
export function descOf(value) {
  return value?.desc ?? value?.Desc ?? value ?? {};
}

/** Returns a tensor desc, possibly nested. @param {any} given */
export function tensorOf(given) {
  const desc = given?.Desc ?? given;
  return desc && typeof desc === "object"
    ? { ...desc, DataType: String(desc.DataType ?? "").replace("DML_TENSOR_DATA_TYPE_", ""), Sizes: desc.Sizes ?? [] }
    : desc;
}

/**
 * Returns a tensor of a desc by name; those of an array are NAME[0], NAME[1], ...
 * @param {any} desc @param {string} name
 */
export function tensorDesc(desc, name) {
  const [, array, index] = /^(.*)\[(\d+)\]$/.exec(name) ?? [];
  return array === undefined ? desc[name] : desc[array]?.[Number(index)];
}
