/** The request of the page as a command, a program or a model, never including the API key. */

import { elementCount } from "./tensor/types.js";

/**
 * @typedef {{name: string, desc: any, recipe: any, base64: string | null}} Input base64 only if the tensor is small
 * @typedef {{url: string, level: string, device: string, subject: string, text: string, operator: any, inputs: Input[], hasKey: boolean}} Request
 */

/** @param {string} text */
function shell(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns the inputs in the form of a request, with arrays as lists. @param {Request} request @param {(input: Input) => string} show as JSON */
function inputsJson({ inputs }, show) {
  /** @type {Map<string, string[]>} */
  const named = new Map();
  for (const input of inputs) {
    const name = /^(.*)\[\d+\]$/.exec(input.name)?.[1] ?? input.name;
    named.set(name, [...(named.get(name) ?? []), show(input)]);
  }
  const isArray = (/** @type {string} */ name) => inputs.some((input) => input.name.startsWith(`${name}[`));
  return `{${
    [...named].map(([name, shown]) => `${JSON.stringify(name)}: ${isArray(name) ? `[${shown.join(", ")}]` : shown[0]}`)
      .join(", ")
  }}`;
}

/** @param {Request} request @param {string} format */
export function requestJson(request, format = "numbers") {
  const device = request.device === "auto" ? "" : `, "device": ${JSON.stringify(request.device)}`;
  const inputs = inputsJson(
    request,
    ({ base64, name }) => (base64 === null ? JSON.stringify(`base64 of ${name}`) : JSON.stringify(base64)),
  );
  return `{"feature_level": "${request.level}", "${request.subject}": ${request.text}, "inputs": ${inputs}${device}, "output_format": "${format}"}`;
}

/** @param {Request} request */
export function curl(request) {
  const lines = [
    `curl ${shell(`${request.url}v1/execute`)}`,
    "--header 'Content-Type: application/json'",
    ...(request.hasKey ? ['--header "Authorization: Bearer $OPWIRE_API_KEY"'] : []),
    `--data-binary ${shell(requestJson(request))}`,
  ];
  return `${lines.join(" \\\n  ")}\n`;
}

/** @param {Request} request */
export function powershell(request) {
  const headers = request.hasKey ? ' -Headers @{ Authorization = "Bearer $env:OPWIRE_API_KEY" }' : "";
  return `$body = @'\n${
    requestJson(request)
  }\n'@\n(Invoke-WebRequest -Uri '${request.url}v1/execute' -Method Post -ContentType 'application/json'${headers} -Body $body).Content\n`;
}

const NUMPY = {
  FLOAT64: "float64",
  FLOAT32: "float32",
  FLOAT16: "float16",
  INT64: "int64",
  UINT64: "uint64",
  INT32: "int32",
  UINT32: "uint32",
  INT16: "int16",
  UINT16: "uint16",
  INT8: "int8",
  UINT8: "uint8",
};

const RANDOM = `def random(of, count, seed, low, high):
    """Returns the console's random values for this seed."""
    def hashed(i):
        x = (i ^ np.uint64(seed * 0x9E3779B9 & 0xFFFFFFFF)) & np.uint64(0xFFFFFFFF)
        x = (x ^ (x >> np.uint64(16))) * np.uint64(0x21F0AAAD) & np.uint64(0xFFFFFFFF)
        x = (x ^ (x >> np.uint64(15))) * np.uint64(0x735A2D97) & np.uint64(0xFFFFFFFF)
        return x ^ (x >> np.uint64(15))
    i = np.arange(count, dtype=np.uint64)
    if of == "integers":
        return low + (hashed(i) % np.uint64(max(1, high - low + 1))).astype(np.int64)
    if of == "uniform":
        return low + (hashed(i) >> np.uint64(8)) * 2.0**-24 * (high - low)
    sums = sum(hashed(i * np.uint64(12) + np.uint64(k)) >> np.uint64(8) for k in range(12))
    return low + (sums * 2.0**-24 - 6) * high
`;

/** @param {Input} input */
function pythonArray({ desc, recipe, base64, name }) {
  const type = NUMPY[/** @type {keyof typeof NUMPY} */ (desc.DataType)];
  const sizes = JSON.stringify(desc.Sizes).replaceAll(",", ", ");
  const count = elementCount(desc);
  if (type && !desc.Strides && recipe.kind === "random") {
    const made = `random("${recipe.of}", ${count}, ${recipe.seed}, ${recipe.low}, ${recipe.high})`;
    return `${made}${
      recipe.of !== "integers" && !/FLOAT/.test(desc.DataType) ? ".astype(np.int64)" : ""
    }.astype(np.${type}).reshape(${sizes})`;
  }
  if (type && !desc.Strides && recipe.kind === "ramp") {
    const cast = /FLOAT/.test(desc.DataType) ? "" : ".astype(np.int64)";
    return `(${recipe.start} + np.arange(${count}) * ${recipe.step})${cast}.astype(np.${type}).reshape(${sizes})`;
  }
  if (base64 === null) return `Path(${JSON.stringify(recipe.file ?? `${name}.bin`)}).read_bytes()`;
  return `base64.b64decode("${base64}")`;
}

/** @param {string} json */
function pythonLiteral(json) {
  return json.replaceAll(
    /"(?:[^"\\]|\\.)*"|\btrue\b|\bfalse\b|\bnull\b|\bNaN\b|\bInfinity\b/g,
    (token) =>
      ({ true: "True", false: "False", null: "None", NaN: 'float("nan")', Infinity: 'float("inf")' })[token] ?? token,
  );
}

/** @param {Request} request */
export function python(request) {
  const arrays = request.inputs.map((input) => [input.name, pythonArray(input)]);
  const needs = (/** @type {string} */ word) => arrays.some(([, made]) => made.includes(word));
  const imports = [
    ...(needs("b64decode") ? ["import base64"] : []),
    ...(request.hasKey ? ["import os"] : []),
    ...(needs("Path(") ? ["from pathlib import Path"] : []),
    ...(blankLine(request, needs)),
    ...(needs("np.") ? ["import numpy as np"] : []),
    "from opwire import Client",
  ];
  const device = request.device === "auto" ? "" : `, device=${JSON.stringify(request.device)}`;
  const key = request.hasKey ? ', api_key=os.environ["OPWIRE_API_KEY"]' : "";
  return `${imports.join("\n")}

${needs("random(") ? `${RANDOM}\n` : ""}${request.subject} = ${pythonLiteral(request.text)}
inputs = {
${arrays.map(([name, made]) => `    ${JSON.stringify(name)}: ${made},`).join("\n")}
}
with Client(${JSON.stringify(request.url.replace(/\/$/, ""))}${key}) as client:
    answer = client.execute(${request.subject}, inputs, feature_level="${request.level}"${device})
for name, array in answer.outputs.items():
    print(name, array)
`;
}

/** @param {Request} request @param {(word: string) => boolean} needs */
function blankLine(request, needs) {
  return needs("b64decode") || request.hasKey || needs("Path(") ? [""] : [];
}

/**
 * Returns a DxDispatch model that runs the operator on the same values.
 * @param {Request} request @param {{name: string, desc: any}[]} outputs
 * @param {Record<string, string>} values input values as JSON lists
 */
export function dxDispatch(request, outputs, values) {
  const name = String(request.operator.type).replace("DML_OPERATOR_", "");
  const resource = (/** @type {string} */ tensor) => tensor.replace(/\[(\d+)\]$/, "$1");
  const resources = [
    ...request.inputs.map((input) =>
      `    ${
        JSON.stringify(resource(input.name))
      }: { "initialValuesDataType": "${input.desc.DataType}", "initialValues": ${values[input.name]} }`
    ),
    ...outputs.map(({ name: tensor, desc }) =>
      `    ${
        JSON.stringify(resource(tensor))
      }: { "initialValuesDataType": "${desc.DataType}", "initialValues": { "value": 0, "valueCount": ${
        elementCount(desc)
      } } }`
    ),
  ];
  /** @type {Record<string, string | string[]>} */
  const bindings = {};
  for (const { name: tensor } of [...request.inputs, ...outputs]) {
    const array = /^(.*)\[\d+\]$/.exec(tensor)?.[1];
    if (array === undefined) bindings[tensor] = resource(tensor);
    else bindings[array] = [.../** @type {string[]} */ (bindings[array] ?? []), resource(tensor)];
  }
  const commands = [
    `    { "type": "dispatch", "dispatchable": ${JSON.stringify(name)}, "bindings": ${JSON.stringify(bindings)} }`,
    ...outputs.map(({ name: tensor }) => `    { "type": "print", "resource": ${JSON.stringify(resource(tensor))} }`),
  ];
  return `{
  "resources": {
${resources.join(",\n")}
  },
  "dispatchables": {
    ${JSON.stringify(name)}: ${request.text}
  },
  "commands": [
${commands.join(",\n")}
  ]
}
`;
}
