/**
 * Reads graphs in either form, by name or as DML_GRAPH_DESC, and DxDispatch models as graphs of their dispatches. Edges may
 * refer to things that do not exist.
 *
 * @typedef {import("../json/scan.js").Node} Node
 * @typedef {import("../contract.js").Contract} Contract
 * @typedef {{id: string, kind: "operator" | "constant" | "input" | "output", name: string, type: string, note: string, desc: any,
 *   place: string, resources?: Record<string, string>}} Box desc is that of an operator or of a declared input, and place a
 *   pointer relative to the graph, empty for outputs and other inputs; resources are those that a dispatch writes, by tensor
 * @typedef {{from: string, slot: string, to: string, tensor: string, place: string}} Edge slot and tensor are names of tensors,
 *   slot empty for the only output of a node
 * @typedef {{form: "named" | "numbered" | "model", boxes: Box[], edges: Edge[]}} Drawing
 */

import { descOf } from "../descs.js";
import { child, find } from "../json/pointers.js";
import { valueOf } from "../json/scan.js";

const INPUT = "input:";

/** Escapes a reference token of a JSON pointer. @param {string | number} name */
function part(name) {
  return `/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Returns an operator type without its prefix. @param {unknown} given */
function shortName(given) {
  return String(given ?? "").replace("DML_OPERATOR_", "");
}

/** Returns the members of an object in order. @param {Node | undefined} node */
function members(node) {
  return node?.members ?? [];
}

/** @param {Node | undefined} root @param {Contract} contract @returns {Drawing} */
export function readGraph(root, contract) {
  return child(root, "Nodes") ? readNumbered(/** @type {Node} */ (root), contract) : readNamed(root);
}

/** @param {Node | undefined} root @returns {Drawing} */
function readNamed(root) {
  /** @type {Box[]} */
  const boxes = [];
  /** @type {Edge[]} */
  const edges = [];
  const nodes = members(child(root, "nodes")?.value);
  const ids = new Map(nodes.map(({ key }, i) => [key, `n${i}`]));
  /** @type {Map<string, Box>} */
  const inputs = new Map();
  const input = (/** @type {string} */ name) => {
    if (!inputs.has(name)) inputs.set(name, box(`in ${name}`, "input", name));
    return `in ${name}`;
  };
  const listed = child(root, "inputs")?.value;
  for (const { text } of listed?.items ?? []) if (text !== undefined) input(text);
  for (const { key, value } of members(listed)) {
    input(key);
    const desc = valueOf(value);
    if (desc && typeof desc === "object") {
      inputs.set(key, { ...box(`in ${key}`, "input", key), desc, place: `/inputs${part(key)}` });
    }
  }
  const source = (/** @type {string} */ given) => {
    if (given.startsWith(INPUT)) return { from: input(given.slice(INPUT.length)), slot: "" };
    const own = ids.get(given);
    if (own) return { from: own, slot: "" };
    const dot = given.lastIndexOf(".");
    const from = ids.get(given.slice(0, dot));
    return dot > 0 && from ? { from, slot: given.slice(dot + 1) } : null;
  };
  const connect = (/** @type {Node} */ given, /** @type {string} */ to, /** @type {string} */ tensor, place = "") => {
    const found = given.kind === "string" ? source(given.text ?? "") : null;
    if (found) edges.push({ ...found, to, tensor, place });
  };
  for (const { key, value } of nodes) {
    const isConstant = !!child(value, "constant");
    const place = `/nodes${part(key)}`;
    const id = /** @type {string} */ (ids.get(key));
    boxes.push({
      ...box(id, isConstant ? "constant" : "operator", key),
      type: shortName(child(value, "type")?.value.text),
      desc: isConstant ? {} : valueOf(child(value, "desc")?.value) ?? {},
      place,
    });
    for (const { key: tensor, value: given } of members(child(value, "inputs")?.value)) {
      const at = `${place}/inputs${part(tensor)}`;
      if (given.kind !== "array") connect(given, id, tensor, at);
      else given.items?.forEach((item, i) => connect(item, id, `${tensor}[${i}]`, at + part(i)));
    }
  }
  const outputs = members(child(root, "outputs")?.value).map(({ key, value }) => {
    connect(value, `out ${key}`, "", `/outputs${part(key)}`);
    return box(`out ${key}`, "output", key);
  });
  return { form: "named", boxes: [...inputs.values(), ...boxes, ...outputs], edges };
}

/** @param {string} id @param {Box["kind"]} kind @param {string} name @returns {Box} */
function box(id, kind, name) {
  return { id, kind, name, type: "", note: "", desc: {}, place: "" };
}

/**
 * Returns the names of a desc's tensors by index. An omitted tensor keeps its index; each tensor of an array has its own.
 * @param {Contract} contract @param {Box} node @param {"input" | "output"} side
 */
function slots(contract, { type, desc }, side) {
  const operator = contract.operators.find(({ name }) => name === type);
  return (operator?.members ?? []).filter((member) => member.role?.endsWith(side)).flatMap(({ name, kind }) =>
    kind === "tensors" ? (Array.isArray(desc[name]) ? desc[name].map((_, i) => `${name}[${i}]`) : []) : [name]
  );
}

/** @param {Node} root @param {Contract} contract @returns {Drawing} */
function readNumbered(root, contract) {
  const nodes = (child(root, "Nodes")?.value.items ?? []).map((node, i) => {
    const desc = child(node, "Desc")?.value;
    const operator = valueOf(child(desc, "Operator")?.value) ?? {};
    return {
      ...box(`n${i}`, child(desc, "Data") ? "constant" : "operator", child(desc, "Name")?.value.text ?? `Node${i}`),
      type: shortName(operator.type ?? operator.Type),
      desc: descOf(operator),
      place: `/Nodes/${i}`,
    };
  });
  /** @type {Edge[]} */
  const edges = [];
  /** @type {Set<number>} */
  const inputs = new Set();
  /** @type {Set<number>} */
  const outputs = new Set();
  const list = (/** @type {string} */ name, /** @type {(edge: any, place: string) => Edge | null} */ read) =>
    child(root, name)?.value.items?.forEach((item, i) => {
      const nested = child(item, "Desc")?.value;
      const edge = read(valueOf(nested ?? item) ?? {}, `/${name}/${i}`);
      if (edge) edges.push(edge);
    });
  const target = (/** @type {any} */ { ToNodeIndex: to, ToNodeInputIndex: number }) =>
    nodes[to] && { to: `n${to}`, tensor: slots(contract, nodes[to], "input")[number] ?? `input ${number}` };
  const origin = (/** @type {any} */ { FromNodeIndex: from, FromNodeOutputIndex: number }) =>
    nodes[from] &&
    {
      from: `n${from}`,
      slot: nodes[from].kind === "constant" ? "" : slots(contract, nodes[from], "output")[number] ?? `output ${number}`,
    };
  list("InputEdges", (edge, place) => {
    const found = target(edge);
    inputs.add(edge.GraphInputIndex);
    return found && { from: `in Input${edge.GraphInputIndex}`, slot: "", ...found, place };
  });
  list("IntermediateEdges", (edge, place) => {
    const [from, to] = [origin(edge), target(edge)];
    return from && to && { ...from, ...to, place };
  });
  list("OutputEdges", (edge, place) => {
    const found = origin(edge);
    outputs.add(edge.GraphOutputIndex);
    return found && { ...found, to: `out Output${edge.GraphOutputIndex}`, tensor: "", place };
  });
  const named = (/** @type {Set<number>} */ numbers, /** @type {"input" | "output"} */ kind) =>
    [...numbers].sort((a, b) => a - b).map((number) => {
      const name = `${kind === "input" ? "Input" : "Output"}${number}`;
      return box(`${kind === "input" ? "in" : "out"} ${name}`, kind, name);
    });
  return { form: "numbered", boxes: [...named(inputs, "input"), ...nodes, ...named(outputs, "output")], edges };
}

/**
 * Reads the dispatches of a model, which are connected by their resources.
 * @param {Node | undefined} root @param {Contract} contract @returns {Drawing}
 */
export function readModel(root, contract) {
  /** @type {Box[]} */
  const boxes = [];
  /** @type {Edge[]} */
  const edges = [];
  /** @type {Map<string, {from: string, slot: string}>} last writer of each resource */
  const written = new Map();
  /** @type {Map<string, Box>} */
  const inputs = new Map();
  const outputs = new Map();
  const source = (/** @type {string} */ resource) => {
    const found = written.get(resource);
    if (found) return found;
    if (!inputs.has(resource)) inputs.set(resource, box(`in ${resource}`, "input", resource));
    return { from: `in ${resource}`, slot: "" };
  };
  child(root, "commands")?.value.items?.forEach((item, i) => {
    const command = valueOf(item) ?? {};
    const kind = String(command.type).toLowerCase();
    const place = `/commands/${i}`;
    if (kind === "print" || kind === "writefile") {
      const id = `out ${command.resource}`;
      const from = written.get(command.resource);
      if (from && !outputs.has(id)) {
        outputs.set(id, box(id, "output", command.resource));
        edges.push({ ...from, to: id, tensor: "", place });
      }
    }
    if (kind !== "dispatch") return;
    const given = valueOf(find(root, `/dispatchables${part(command.dispatchable)}`)) ?? {};
    const type = shortName(given.type ?? given.Type);
    const operator = contract.operators.find(({ name }) => name === type);
    const id = `n${i}`;
    /** @type {Record<string, string>} */
    const resources = {};
    boxes.push({
      ...box(id, "operator", String(command.dispatchable)),
      resources,
      type,
      note: given.dmlCompileType === "DmlCompileGraph" ? "compiled as a graph" : "",
      desc: descOf(given),
      place: `/dispatchables${part(command.dispatchable)}`,
    });
    const bound = { ...given.bindings, ...command.bindings };
    for (const [tensor, listed] of Object.entries(bound)) {
      const isOutput = operator?.members.find(({ name }) => name === tensor)?.role?.endsWith("output");
      const isArray = Array.isArray(listed);
      (isArray ? listed : [listed]).forEach((each, k) => {
        const resource = String(each?.name ?? each);
        const name = isArray ? `${tensor}[${k}]` : tensor;
        if (isOutput) {
          written.set(resource, { from: id, slot: name });
          resources[name] = resource;
        } else edges.push({ ...source(resource), to: id, tensor: name, place: `${place}/bindings${part(tensor)}` });
      });
    }
  });
  return { form: "model", boxes: [...inputs.values(), ...boxes, ...outputs.values()], edges };
}

/** Returns the names of a box's outputs, by index. @param {Contract} contract @param {Box} box */
export function outputSlots(contract, box) {
  return slots(contract, box, "output");
}
