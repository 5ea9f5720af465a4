/** The descs of operators and tensors, as people and DxDispatch write them. */

/** The members of a desc, wherever DxDispatch lets them stand. @param {any} value */
export function descOf(value) {
  return value?.desc ?? value?.Desc ?? value ?? {};
}

/** A tensor desc, also one that is nested. @param {any} given */
export function tensorOf(given) {
  const desc = given?.Desc ?? given;
  return desc && typeof desc === "object"
    ? { ...desc, DataType: String(desc.DataType ?? "").replace("DML_TENSOR_DATA_TYPE_", ""), Sizes: desc.Sizes ?? [] }
    : desc;
}

/**
 * The tensors of a desc's member by name; those of an array as NAME[0], NAME[1], ...
 * @param {any} desc @param {string} name
 */
export function tensorDesc(desc, name) {
  const [, array, index] = /^(.*)\[(\d+)\]$/.exec(name) ?? [];
  return array === undefined ? desc[name] : desc[array]?.[Number(index)];
}
