/** The struct of an operator, as in directml.h. */

const NUMBERS = { UINT: "UINT", INT: "INT", FLOAT: "FLOAT", BOOL: "BOOL", UINT64: "UINT64", INT64: "INT64" };

/**
 * @param {import("./contract.js").Operator} operator
 * @param {import("./contract.js").Contract} contract
 */
export function cStruct(operator, contract) {
  const lines = operator.members.map((member) => `    ${line(member, contract)};`);
  return `struct ${operator.struct}\n{\n${lines.join("\n")}\n};\n`;
}

/** @param {import("./contract.js").Member} member @param {import("./contract.js").Contract} contract */
function line(member, contract) {
  const isOptional = member.optional || member.role?.startsWith("optional") ? "_Maybenull_ " : "";
  const sized = member.count ? `_Field_size_(${member.count}) ` : "";
  const number = NUMBERS[/** @type {keyof typeof NUMBERS} */ (member.number)] ?? member.number;
  if (member.kind === "tensor") return `${isOptional}const DML_TENSOR_DESC* ${member.name}`;
  if (member.kind === "tensors") return `${sized}const DML_TENSOR_DESC* ${member.name}`;
  if (member.kind === "count") return `UINT ${member.name}`;
  if (member.kind === "enum") return `${member.enum} ${member.name}`;
  if (member.kind === "array") return `${sized}const ${number}* ${member.name}`;
  if (member.kind === "struct") {
    return isOptional || contract.structs[member.struct]?.number === "FLOAT"
      ? `${isOptional}const ${member.struct}* ${member.name}`
      : `${member.struct} ${member.name}`;
  }
  if (member.kind === "union") return `DML_SCALAR_UNION ${member.name}`;
  if (member.kind === "operator") return `${isOptional}const DML_OPERATOR_DESC* ${member.name}`;
  if (member.kind === "operators") return `${sized}const DML_OPERATOR_DESC* ${member.name}`;
  return `${number} ${member.name}`;
}
