/** Completions from the schema; options available at the chosen level come first. */

import { rankText, rowAt, typesText } from "../contract.js";
import { contextAt } from "../json/context.js";

/**
 * @typedef {import("../contract.js").Contract} Contract
 * @typedef {import("../contract.js").Operator} Operator
 * @typedef {{label: string, apply: string, detail?: string, info?: string, boost?: number}} Option
 */

const TENSOR_MEMBERS = [
  ["DataType", '"FLOAT32"', "element type"],
  ["Sizes", "[1, 1, 2, 3]", "elements along each dimension"],
  ["Strides", "[6, 6, 3, 1]", "elements between neighbors; contiguous by default"],
  ["TotalTensorSizeInBytes", "0", "size of the buffer"],
  ["Flags", '"NONE"', "NONE or OWNED_BY_DML"],
  ["GuaranteedBaseOffsetAlignment", "0", "bytes"],
];

const EMPTY = {
  scalar: "0",
  array: "[0]",
  count: "1",
  struct: "{}",
  union: "0",
  operator: '{ "type": "ACTIVATION_RELU", "desc": {} }',
  operators: "[]",
};

/** Returns the operator of a text, which may be unfinished. @param {Contract} contract @param {string} text */
export function operatorOf(contract, text) {
  const given = /"[tT]ype"\s*:\s*(?:"([^"\n]*)"|(\d+))/.exec(text);
  const name = given?.[1]?.replace("DML_OPERATOR_", "");
  return contract.operators.find((each) =>
    each.name === name || each.aliases?.includes(name ?? "") || String(each.value) === given?.[2]
  );
}

const TYPES = /(?<!Activation"\s*:\s*\{\s*)"[tT]ype"\s*:\s*(?:"[^"\n]*"|\d+)/g;

/**
 * Returns the part of a text about the operator at an offset: the whole text, or in a graph or model, the part from its
 * type to the next one.
 * @param {string} text @param {number} offset
 */
export function around(text, offset) {
  if (!/"(?:[nN]odes|dispatchables)"\s*:/.test(text)) return text;
  const at = [...text.matchAll(TYPES)].map(({ index }) => index);
  const next = at.findIndex((index) => index > offset);
  return text.slice(at[(next < 0 ? at.length : next) - 1] ?? 0, next < 0 ? text.length : at[next]);
}

/** Returns the rows of an operator in effect at a level, for the attribute values in its text. @param {Operator} operator @param {Contract} contract @param {string} level @param {string} text */
function rowsFor(operator, { levels }, level, text) {
  const own = operator.support.filter((row) =>
    Object.entries(row.when ?? {}).every(([attribute, values]) => {
      const written = new RegExp(`"${attribute}"\\s*:\\s*"(?:DML_[A-Z_]*?FUNCTION_)?([A-Z0-9_]+)"`).exec(text)?.[1];
      return !written || values.includes(written);
    })
  );
  const conditions = new Set(own.map((row) => JSON.stringify(row.when ?? null)));
  return [...conditions].map((when) =>
    rowAt(own.filter((row) => JSON.stringify(row.when ?? null) === when), levels, levels.indexOf(level))
  ).filter((row) => !!row);
}

/**
 * Returns the first level at which a tensor supports a type.
 * @param {Operator} operator @param {Contract} contract @param {string} tensor @param {string} type
 */
function firstLevel(operator, { levels }, tensor, type) {
  const from = operator.support.filter((row) => row.tensors[tensor]?.data_types.includes(type)).map((row) =>
    levels.indexOf(row.from)
  );
  return from.length ? levels[Math.min(...from)] : undefined;
}

/** @param {string} value @param {boolean} allowed @param {string | undefined} from @returns {Option} */
function choice(value, allowed, from) {
  return {
    label: value,
    apply: JSON.stringify(value),
    detail: allowed ? "" : `from ${from}`,
    boost: allowed ? 1 : -50,
  };
}

/** @param {Contract} contract @param {Operator} operator @param {string} tensor @param {string} level @param {string} text */
export function typesAt(contract, operator, tensor, level, text) {
  return [...new Set(rowsFor(operator, contract, level, text).flatMap((row) => row.tensors[tensor]?.data_types ?? []))];
}

/** @param {Contract} contract @param {Operator} operator @param {string} tensor @param {string} level @param {string} text @returns {Option[]} */
function dataTypes(contract, operator, tensor, level, text) {
  const now = typesAt(contract, operator, tensor, level, text);
  const ever = [...new Set(operator.support.flatMap((row) => row.tensors[tensor]?.data_types ?? []))];
  return [
    ...now.map((type) => choice(type, true, "")),
    ...ever.filter((type) => !now.includes(type)).map((type) =>
      choice(type, false, firstLevel(operator, contract, tensor, type))
    ),
  ];
}

/** Returns a tensor desc with a type and sizes that are valid at the level. @param {Contract} contract @param {Operator} operator @param {string} name @param {string} level @param {string} text */
function skeleton(contract, operator, name, level, text) {
  const limits = rowsFor(operator, contract, level, text)[0]?.tensors[name];
  const rank = Math.min(4, limits?.ranks[1] ?? 4);
  const sizes = new Array(rank).fill(1).fill(3, -1).fill(2, Math.max(0, rank - 2), Math.max(0, rank - 1));
  return `{ "DataType": "${limits?.data_types[0] ?? "FLOAT32"}", "Sizes": ${
    JSON.stringify(sizes).replaceAll(",", ", ")
  } }`;
}

/** @param {Contract} contract @param {Operator} operator @param {import("../contract.js").Member} member @param {string} level @param {string} text */
function valueFor(contract, operator, member, level, text) {
  if (member.kind === "tensor") return skeleton(contract, operator, member.name, level, text);
  if (member.kind === "tensors") return `[${skeleton(contract, operator, member.name, level, text)}]`;
  if (member.kind === "enum") return JSON.stringify(Object.keys(contract.enums[member.enum].members)[0]);
  if (member.number === "BOOL") return "false";
  return EMPTY[/** @type {keyof typeof EMPTY} */ (member.kind)] ?? "0";
}

/** @param {string} name @param {string} value @param {string} detail @param {string} source @param {import("../json/context.js").Context} context @returns {Option} */
function member(name, value, detail, source, context) {
  const rest = source.slice(context.to);
  const hasValue = /^\s*:/.test(rest);
  const comma = /^\s*"/.test(rest) ? "," : "";
  return { label: name, apply: hasValue ? JSON.stringify(name) : `${JSON.stringify(name)}: ${value}${comma}`, detail };
}

/** Returns the part of a path below "desc". @param {string[]} path */
function below(path) {
  const at = path.findIndex((name) => name === "desc" || name === "Desc");
  return at < 0 ? null : path.slice(at + 1);
}

/**
 * Returns the completions at an offset.
 * @param {Contract} contract @param {string} source @param {number} offset @param {string} level
 * @returns {{from: number, to: number, options: Option[]} | null}
 */
export function completions(contract, source, offset, level) {
  const context = contextAt(source, offset);
  if (!context) return null;
  const own = around(source, offset);
  const options = context.role === "key"
    ? keysAt(contract, source, own, context, level)
    : valuesAt(contract, own, context, level);
  return options.length ? { from: context.from, to: context.to, options } : null;
}

/** @param {Contract} contract @param {string} source @param {string} own @param {import("../json/context.js").Context} context @param {string} level @returns {Option[]} */
function keysAt(contract, source, own, context, level) {
  const operator = operatorOf(contract, own);
  const inDesc = below(context.path);
  const left = (/** @type {string} */ name) => !context.keys.includes(name);
  if (!inDesc) {
    return [["type", '"REDUCE"', "the operator type"], ["desc", "{}", "its members"]].filter(([name]) => left(name))
      .map(([name, value, detail]) => member(name, value, detail, source, context));
  }
  if (!operator) return [];
  if (inDesc.length === 0) {
    return operator.members.filter(({ name }) => left(name)).map((each) =>
      member(
        each.name,
        valueFor(contract, operator, each, level, own),
        each.role ?? each.number ?? each.kind,
        source,
        context,
      )
    );
  }
  const holder = operator.members.find(({ name }) => name === inDesc[0]);
  if (holder?.kind === "tensor" || holder?.kind === "tensors") {
    return TENSOR_MEMBERS.filter(([name]) => left(name)).map(([name, value, detail]) =>
      member(name, value, detail, source, context)
    );
  }
  const names = holder?.kind === "struct" ? contract.structs[holder.struct].members : [];
  return names.filter(left).map((/** @type {string} */ name) =>
    member(name, "0", contract.structs[holder?.struct].number, source, context)
  );
}

/** @param {Contract} contract @param {string} source @param {import("../json/context.js").Context} context @param {string} level @returns {Option[]} */
function valuesAt(contract, source, context, level) {
  const { levels } = contract;
  const isEarly = (/** @type {string} */ from) => levels.indexOf(from) <= levels.indexOf(level);
  const inDesc = below(context.path);
  const last = context.path.at(-1);
  if (!inDesc || inDesc.at(-1) === "type") {
    const among = inDesc ? contract.operators.filter(({ name }) => name.startsWith("ACTIVATION_")) : contract.operators;
    return last === "type"
      ? among.map(({ name, introduced, summary }) => ({
        ...choice(name, isEarly(introduced), introduced),
        info: summary,
      }))
      : [];
  }
  const operator = operatorOf(contract, source);
  const holder = operator?.members.find(({ name }) => name === inDesc[0]);
  if (!operator || !holder) return [];
  if (holder.role && last === "DataType") return dataTypes(contract, operator, holder.name, level, source);
  if (holder.role && last === "Flags") return [choice("NONE", true, ""), choice("OWNED_BY_DML", true, "")];
  if (inDesc.length > 1) return [];
  if (holder.kind === "enum") {
    const rows = Object.entries(contract.enums[holder.enum].members);
    return rows.map(([name, { from }]) => choice(name, isEarly(from), from));
  }
  if (holder.number === "BOOL") return ["true", "false"].map((word) => ({ label: word, apply: word }));
  if (holder.role) {
    return [{
      label: "tensor",
      apply: skeleton(contract, operator, holder.name, level, source),
      detail: "tensor desc",
    }];
  }
  return [];
}

/**
 * Describes the member at a pointer in a few lines.
 * @param {Contract} contract @param {string} text @param {number} offset @param {string} pointer @param {string} level
 */
export function explain(contract, text, offset, pointer, level) {
  const source = around(text, offset);
  const operator = operatorOf(contract, source);
  const path = pointer.split("/").slice(1);
  if (!operator) return null;
  if (path.at(-1) === "type" && !below(path)) return [operator.name, operator.summary, `from ${operator.introduced}`];
  const inDesc = below(path);
  const holder = inDesc?.length ? operator.members.find(({ name }) => name === inDesc[0]) : undefined;
  if (!holder) return null;
  const lines = [
    `${operator.name}.${inDesc?.join(".")}`,
    `${holder.kind}${holder.role ? `, ${holder.role}` : ""}${holder.number ? ` of ${holder.number}` : ""}`,
  ];
  if (holder.role) {
    for (const row of rowsFor(operator, contract, level, source)) {
      const limits = row.tensors[holder.name];
      if (limits) {
        lines.push(
          `at ${level}: ${typesText(limits.data_types)}; rank ${rankText(limits.ranks).slice(1)}${
            row.when ? ` (${Object.values(row.when).flat().join(", ")})` : ""
          }`,
        );
      }
    }
  }
  if (holder.kind === "enum") lines.push(Object.keys(contract.enums[holder.enum].members).join(", "));
  if (holder.counts) lines.push(`length of ${holder.counts.join(" and ")}; optional`);
  if (holder.count) lines.push(`length given by ${holder.count}`);
  return lines;
}
