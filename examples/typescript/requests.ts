// Calls opwire from TypeScript with nothing but fetch: JSON, raw bytes, a batch, a graph, and errors.
//
// Usage: node examples/typescript/requests.ts    with Node.js 22.18 or newer; or deno run --allow-net --allow-env, or bun
// OPWIRE_URL is the address of the server, http://127.0.0.1:8000 by default; OPWIRE_API_KEY is the API key, if any.

import process from "node:process";

const SERVER = process.env.OPWIRE_URL ?? "http://127.0.0.1:8000";
const API_KEY = process.env.OPWIRE_API_KEY;

/** A tensor in an answer: its desc, and its elements as numbers or the number of its bytes after the JSON. */
interface Tensor {
  desc: { DataType: string; Sizes: number[] };
  data: unknown;
  binary_data_size: number;
}

interface Answer {
  outputs: Record<string, Tensor>;
  device: string;
}

interface Violation {
  code: string;
  pointer: string;
  message: string;
  available_from: string | null;
}

/** What every error consists of, as in RFC 9457. */
interface Problem {
  status: number;
  code: string;
  detail: string;
  violations?: Violation[];
}

class Refused extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    const violations = problem.violations?.map(({ pointer, message }) => `\n  ${pointer}: ${message}`) ?? [];
    super(`${problem.status} ${problem.code}: ${problem.detail}${violations.join("")}`);
    this.problem = problem;
  }
}

/** Sends a body and returns the response. A busy server says when to try again, and is asked again then. */
async function post(path: string, body: BodyInit, headers: Record<string, string>): Promise<Response> {
  if (API_KEY) headers.Authorization = `Bearer ${API_KEY}`;
  for (let attempt = 1;; attempt++) {
    const response = await fetch(SERVER + path, { method: "POST", body, headers });
    if (response.ok) return response;
    const wait = Number(response.headers.get("Retry-After") ?? 0);
    if (wait === 0 || attempt === 5) throw new Refused(await response.json());
    await response.body?.cancel();
    await new Promise((resolve) => setTimeout(resolve, wait * 1000));
  }
}

/** Sends JSON and returns JSON. */
async function postJson<T>(path: string, request: unknown): Promise<T> {
  const response = await post(path, JSON.stringify(request), { "Content-Type": "application/json" });
  return await response.json();
}

/** Sends JSON with the bytes of the inputs after it; returns the answer and the bytes of the outputs after that. */
async function postBytes(path: string, request: unknown, inputs: Uint8Array[]): Promise<[Answer, Uint8Array]> {
  const json = new TextEncoder().encode(JSON.stringify(request));
  const response = await post(path, new Blob([json, ...inputs] as BlobPart[]), {
    "Content-Type": "application/octet-stream",
    "Inference-Header-Content-Length": String(json.length),
    "Accept": "application/octet-stream",
  });
  const length = Number(response.headers.get("Inference-Header-Content-Length"));
  const body = new Uint8Array(await response.arrayBuffer());
  return [JSON.parse(new TextDecoder().decode(body.subarray(0, length))), body.subarray(length)];
}

/** Asks for the position of the largest element in each row of a matrix. */
function largestInRows(axis: number): Record<string, unknown> {
  return {
    operator: {
      type: "ARGMAX",
      desc: {
        InputTensor: { DataType: "FLOAT32", Sizes: [2, 3] },
        Axes: [axis],
        AxisDirection: "INCREASING",
      },
    },
    inputs: { InputTensor: { data: [[1, 5, 2], [9, "NaN", 3]] } },
    output_format: "numbers",
  };
}

const flat = (data: unknown): string => [data].flat(Infinity).join(" ");

// 1. JSON: the elements are numbers, nested or not; NaN and the infinities are strings.
async function json(): Promise<void> {
  const answer = await postJson<Answer>("/v1/execute", largestInRows(1));
  const { desc, data } = answer.outputs.OutputTensor;
  console.log(`json: ${desc.DataType} ${desc.Sizes.join("x")}: ${flat(data)}`);
}

// 2. Raw bytes, little-endian: the fastest form. The tensors follow the JSON, one directly after another, in the order
// of "inputs". Nothing is aligned: here the scale begins at byte 5, and the outputs begin wherever the JSON ends. A
// Float32Array must begin at a multiple of 4, so the bytes are copied first, with slice.
async function bytes(): Promise<void> {
  const quantized = new Uint8Array([10, 13, 15, 0, 255]);
  const scale = new Float32Array([0.5]);
  const zeroPoint = new Uint8Array([10]);
  const each = { Sizes: [5] };
  const one = { Sizes: [5], Strides: [0] }; // one element, read five times
  const request = {
    operator: {
      type: "ELEMENT_WISE_DEQUANTIZE_LINEAR",
      desc: {
        InputTensor: { DataType: "UINT8", ...each },
        ScaleTensor: { DataType: "FLOAT32", ...one },
        ZeroPointTensor: { DataType: "UINT8", ...one },
      },
    },
    inputs: {
      InputTensor: { binary_data_size: quantized.byteLength },
      ScaleTensor: { binary_data_size: scale.byteLength },
      ZeroPointTensor: { binary_data_size: zeroPoint.byteLength },
    },
  };
  const inputs = [quantized, new Uint8Array(scale.buffer), zeroPoint];
  const [answer, tail] = await postBytes("/v1/execute", request, inputs);
  const size = answer.outputs.OutputTensor.binary_data_size;
  const floats = new Float32Array(tail.slice(0, size).buffer);
  console.log(`bytes: ${floats.join(" ")}`);
}

// 3. A batch: several requests in one, each with its own outcome, in the same order. A wrong one does not stop others.
async function batch(): Promise<void> {
  const requests = [largestInRows(1), largestInRows(5)];
  const answer = await postJson<{ results: (Answer | Problem)[] }>("/v1/batch", { requests });
  for (const result of answer.results) {
    if ("outputs" in result) console.log(`batch: ${flat(result.outputs.OutputTensor.data)}`);
    else console.log(`batch: ${result.status} ${result.code}: ${result.violations?.[0].message}`);
  }
}

// 4. A graph: relu(x * w + b) in one request. Sources are nodes by name, and inputs as input:NAME.
async function graph(): Promise<void> {
  const matrix = { DataType: "FLOAT32", Sizes: [2, 2] };
  const answer = await postJson<Answer>("/v1/execute", {
    graph: {
      nodes: {
        w: { constant: { data: [[1, -1], [2, -2]] } },
        b: { constant: { data: [[0.5, 0.5], [0.5, 0.5]] } },
        sums: {
          type: "GEMM",
          desc: {
            ATensor: matrix,
            BTensor: matrix,
            CTensor: matrix,
            TransA: "NONE",
            TransB: "NONE",
            Alpha: 1,
            Beta: 1,
          },
          inputs: { ATensor: "input:x", BTensor: "w", CTensor: "b" },
        },
        relu: { type: "ACTIVATION_RELU", desc: { InputTensor: matrix }, inputs: { InputTensor: "sums" } },
      },
      outputs: { y: "relu" },
    },
    inputs: { x: { data: [[1, 2], [-3, -4]] } },
    output_format: "numbers",
  });
  console.log(`graph: ${flat(answer.outputs.y.data)}`);
}

// 5. Errors: every one has a status and a code; a violation also says where in the request it is, and which feature
// level accepts it.
async function errors(): Promise<void> {
  const request = {
    feature_level: "2_1",
    operator: {
      type: "REDUCE",
      desc: { Function: "SUM", InputTensor: { DataType: "INT64", Sizes: [1, 1, 2, 3] }, Axes: [3] },
    },
    inputs: { InputTensor: { data: [[1, 2, 3], [4, 5, 6]] } },
  };
  try {
    await postJson("/v1/execute", request);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    console.log(`errors: ${error.problem.status} ${error.problem.code}`);
    for (const { pointer, available_from } of error.problem.violations ?? []) {
      console.log(`errors: ${pointer} is accepted from ${available_from} on`);
    }
  }
}

for (const example of [json, bytes, batch, graph, errors]) await example();
