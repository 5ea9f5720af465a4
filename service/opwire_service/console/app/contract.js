/** The contract of all operators, as returned by the server: supported tensors by feature level. */

/**
 * @typedef {{ranks: [number, number], data_types: string[], required?: boolean}} Limits
 * @typedef {{from: string, when?: Record<string, string[]>, tensors: Record<string, Limits>}} Row
 * @typedef {{name: string, kind: string, role?: string, [more: string]: any}} Member
 * @typedef {{promise: string, where?: string | null}} Accuracy
 * @typedef {{name: string, value: number, introduced: string, family: string, struct: string, summary: string,
 *   source: string, accuracy: Accuracy[], aliases?: string[], members: Member[], support: Row[], state: string}} Operator
 * @typedef {{levels: string[], operators: Operator[], enums: Record<string, any>, structs: Record<string, any>}} Contract
 * @typedef {{from: number, to: number, rows: Row[], types: string[], ranks: [number, number], news: string[], wider: boolean}} Band
 *   support shared by consecutive levels: the rows in effect, their data types and ranks, and the new ones
 */

/**
 * @param {any} schema of /v1/schema @param {any[]} listed of /v1/operators
 * @returns {Contract}
 */
export function readContract(schema, listed) {
  const states = new Map(listed.map((row) => [row.type.replace(schema.prefix, ""), stateOf(row)]));
  const operators = Object.entries(schema.operators).map(([name, row]) => ({
    name,
    .../** @type {any} */ (row),
    state: states.get(name) ?? "known",
  }));
  return { levels: schema.feature_levels, operators, enums: schema.enums, structs: schema.structs };
}

/** @param {{declared: boolean, executable: boolean}} row */
export function stateOf(row) {
  return row.executable ? "executable" : row.declared ? "declared" : "known";
}

/** Groups rows by the attribute values to which they apply. @param {Operator} operator */
export function groupsOf(operator) {
  /** @type {Map<string, Row[]>} */
  const groups = new Map();
  for (const row of operator.support) {
    const when = whenOf(row);
    groups.set(when, [...(groups.get(when) ?? []), row]);
  }
  return groups;
}

/** @param {Row} row */
export function whenOf(row) {
  return Object.values(row.when ?? {}).flat().join(", ");
}

/**
 * Returns the row in effect at a level: the one with the highest level not above it.
 * @param {Row[]} rows @param {string[]} levels @param {number} level
 */
export function rowAt(rows, levels, level) {
  /** @type {Row | undefined} */
  let found;
  for (const row of rows) {
    const from = levels.indexOf(row.from);
    if (from <= level && (!found || from > levels.indexOf(found.from))) found = row;
  }
  return found;
}

/** @param {Row[]} rows */
function allTypes(rows) {
  return [...new Set(rows.flatMap((row) => Object.values(row.tensors).flatMap((limits) => limits.data_types)))];
}

/** @param {Row[]} rows @returns {[number, number]} */
function allRanks(rows) {
  const ranks = rows.flatMap((row) => Object.values(row.tensors).map((limits) => limits.ranks));
  return [Math.min(...ranks.map((each) => each[0])), Math.max(...ranks.map((each) => each[1]))];
}

/**
 * Returns the bands of equal support, starting at the operator's first level.
 * @param {Operator} operator @param {string[]} levels @param {string} when only rows for these attribute values
 * @returns {Band[]}
 */
export function bandsOf(operator, levels, when = "") {
  const groups = [...groupsOf(operator)].filter(([each]) => !when || each === when).map(([, rows]) => rows);
  /** @type {Band[]} */
  const bands = [];
  levels.forEach((_, level) => {
    const rows = /** @type {Row[]} */ (groups.map((group) => rowAt(group, levels, level)).filter(Boolean));
    const before = bands.at(-1);
    if (before && rows.length === before.rows.length && rows.every((row, i) => row === before.rows[i])) {
      before.to = level;
    } else if (rows.length) {
      const types = allTypes(rows);
      const ranks = allRanks(rows);
      const news = before ? types.filter((type) => !before.types.includes(type)) : [];
      const wider = !!before && (ranks[0] < before.ranks[0] || ranks[1] > before.ranks[1]);
      bands.push({ from: level, to: level, rows, types, ranks, news, wider });
    }
  });
  return bands;
}

/** @param {[number, number]} ranks */
export function rankText([least, most]) {
  return least === most ? `r${least}` : `r${least}-${most}`;
}

/** @type {Record<string, [string, string]>} */
const PROMISES = {
  exact: ["exact", ""],
  correctly_rounded: ["correctly rounded", "the exact real result, rounded once to the output type"],
  within_1_ulp: ["within 1 ULP", "at most one unit in the last place from the exact result"],
};

/** Describes the accuracy of an operator's outputs. @param {Operator} operator */
export function accuracyText({ accuracy }) {
  return accuracy.map(({ promise, where }) => {
    const [name, means] = PROMISES[promise] ?? [promise, ""];
    if (where) return `${name} where ${where}`;
    return means ? `${name} (${means})` : name;
  }).join("; ");
}

/** Abbreviates a data type: F32, I64, U8. @param {string} type */
export function shortType(type) {
  return type.replace("FLOAT", "F").replace("UINT", "U").replace("INT", "I");
}

/**
 * Groups data types by kind: FLOAT32/16 INT64/32.
 * @param {string[]} types
 */
export function typesText(types) {
  /** @type {Map<string, string[]>} */
  const kinds = new Map();
  for (const type of types) {
    const kind = type.replace(/\d+$/, "");
    kinds.set(kind, [...(kinds.get(kind) ?? []), type.slice(kind.length)]);
  }
  return [...kinds].map(([kind, widths]) => kind + widths.join("/")).join(" ");
}

/**
 * @typedef {{q: string, level: string, type: string, as: string, rank: string, state: string, changed: string, family: string}} Filter
 */

/** @type {Filter} */
export const NO_FILTER = { q: "", level: "", type: "", as: "any input", rank: "", state: "", changed: "", family: "" };

/** @param {Operator} operator @param {string} as */
function tensorNames(operator, as) {
  const side = as.split(" ")[1];
  return operator.members
    .filter((member) => member.role && (side === "tensor" || member.role.includes(side)))
    .map((member) => member.name);
}

/**
 * Tells whether a band matches a filter: yes, no or partly, and where.
 * @param {Operator} operator @param {Band} band @param {Filter} filter
 * @returns {{answer: string, where: string[]}}
 */
export function answerOf(operator, band, filter) {
  const names = tensorNames(operator, filter.as);
  let all = true;
  const where = new Set();
  for (const row of band.rows) {
    for (const name of names.filter((each) => each in row.tensors)) {
      const limits = row.tensors[name];
      const hasType = !filter.type || limits.data_types.includes(filter.type);
      const hasRank = !filter.rank ||
        (limits.ranks[0] <= Number(filter.rank) && Number(filter.rank) <= limits.ranks[1]);
      if (hasType && hasRank) where.add(whenOf(row) ? `${name} for ${whenOf(row)}` : name);
      else all = false;
    }
  }
  return { answer: where.size === 0 ? "no" : all ? "yes" : "partly", where: [...where] };
}

/** Scores how well words match an operator: lower is better, -1 means no match. @param {Operator} operator @param {string} q */
function matches(operator, q) {
  const words = q.toLowerCase().replace("dml_operator_", "").split(/\s+/).filter(Boolean);
  const names = [operator.name, ...(operator.aliases ?? [])].map((name) => name.toLowerCase());
  const text = `${names.join(" ")} ${operator.family} ${operator.summary}`.toLowerCase().replaceAll("_", " ");
  if (!words.every((word) => text.includes(word.replaceAll("_", " ")))) return -1;
  return words.length && names.some((name) => name.startsWith(words[0])) ? 0 : 1;
}

/**
 * Returns the operators that match a filter, each with its bands and their answers.
 * @param {Contract} contract @param {Filter} filter
 */
export function select(contract, filter) {
  const { levels } = contract;
  const asks = filter.type || filter.rank;
  const level = filter.level ? levels.indexOf(filter.level) : -1;
  const chosen = [];
  for (const operator of contract.operators) {
    const order = matches(operator, filter.q);
    if (order < 0 || (filter.family && operator.family !== filter.family)) continue;
    if (filter.state && !hasState(operator, filter.state)) continue;
    const bands = bandsOf(operator, levels).map((band) => ({
      ...band,
      ...(asks ? answerOf(operator, band, filter) : { answer: "", where: [] }),
    }));
    if (filter.changed && !bands.some((band) => levels[band.from] === filter.changed)) continue;
    const asked = level < 0 ? bands : bands.filter((band) => band.from <= level && level <= band.to);
    if (!asked.length || (asks && asked.every((band) => band.answer === "no"))) continue;
    chosen.push({ operator, bands, order });
  }
  return chosen.sort((a, b) => a.order - b.order);
}

const STATES = ["known", "declared", "executable"];

/** Executable operators are also declared, and declared ones are also known. @param {Operator} operator @param {string} state */
function hasState(operator, state) {
  return STATES.indexOf(operator.state) >= STATES.indexOf(state);
}

/** Returns the operator names most similar to a text. @param {Contract} contract @param {string} q */
export function nearest(contract, q) {
  const given = pairs(q);
  const score = (/** @type {Operator} */ { name }) => {
    const own = pairs(name);
    return (2 * own.filter((pair) => given.includes(pair)).length) / (own.length + given.length);
  };
  return contract.operators.map((operator) => ({ name: operator.name, score: score(operator) }))
    .filter((each) => each.score > 0.2).sort((a, b) => b.score - a.score).slice(0, 3).map((each) => each.name);
}

/** @param {string} text */
function pairs(text) {
  const letters = text.toUpperCase().replace(/[^A-Z0-9]/g, "");
  return [...letters].slice(1).map((letter, i) => letters[i] + letter);
}
