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
 * What there is for each tensor, by name; for those of an array as NAME[0], NAME[1], ...
 * @param {Record<string, any>} given @returns {[string, any][]}
 */
export function byTensor(given) {
  return Object.entries(given).flatMap(([name, found]) =>
    Array.isArray(found)
      ? found.map((each, i) => /** @type {[string, any]} */ ([`${name}[${i}]`, each]))
      : [[name, found]]
  );
}

/**
 * The tensor of a desc by name, or what else there is for it; those of an array go by NAME[0], NAME[1], ...
 * @param {any} desc @param {string} name
 */
export function tensorDesc(desc, name) {
  const [, array, index] = /^(.*)\[(\d+)\]$/.exec(name) ?? [];
  return array === undefined ? desc[name] : desc[array]?.[Number(index)];
}
