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
 * Returns what is given for each tensor, by name; the tensors of an array are NAME[0], NAME[1], ...
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
 * Returns a tensor of a desc, or whatever else is given for it, by name; those of an array are NAME[0], NAME[1], ...
 * @param {any} desc @param {string} name
 */
export function tensorDesc(desc, name) {
  const [, array, index] = /^(.*)\[(\d+)\]$/.exec(name) ?? [];
  return array === undefined ? desc[name] : desc[array]?.[Number(index)];
}
