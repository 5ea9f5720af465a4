// A client as its users write it, from types that openapi-typescript generates.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });

const rows = { DataType: "FLOAT32", Sizes: [2, 3] } satisfies components["schemas"]["BufferTensorDesc"];
const data = [[1, 5, 2], [9, 0, 3]];

// Members with a default may be left out, and outputs have types without a cast.
const product = await client.POST("/v1/execute", {
  body: {
    operator: { type: "GEMM", desc: { ATensor: rows, BTensor: rows, TransB: "TRANSPOSE" } },
    inputs: { ATensor: { data }, BTensor: { data } },
    output_format: "numbers",
  },
});
if (product.error) throw new Error(product.error.detail);
const output = product.data.outputs.OutputTensor!;
const sizes: number[] = output.desc.Sizes;
const type: "FLOAT32" | "FLOAT16" | string = output.desc.DataType;
console.log("execute:", type, sizes.join("x"), JSON.stringify(output.data));

const halves = await client.POST("/v1/execute", {
  body: {
    operator: {
      type: "SPLIT",
      desc: { InputTensor: rows, Axis: 0, OutputTensors: [1, 1].map((size) => ({ ...rows, Sizes: [size, 3] })) },
    },
    inputs: { InputTensor: { data } },
    output_format: "numbers",
  },
});
const listed = halves.data?.outputs.OutputTensors;
console.log("lists:", Array.isArray(listed) && JSON.stringify(listed.map((each) => each.data)));

const graph = await client.POST("/v1/execute", {
  body: {
    graph: {
      nodes: {
        relu: { type: "ACTIVATION_RELU", desc: { InputTensor: rows }, inputs: { InputTensor: "input:x" } },
      },
      outputs: { y: "relu" },
    },
    inputs: { x: { data } },
    output_format: "numbers",
  },
});
const y = graph.data?.outputs["y"];
console.log("graph:", y && !Array.isArray(y) && JSON.stringify(y.data));

const checked = await client.POST("/v1/validate", {
  body: { operator: { type: "MAX_POOLING", desc: { InputTensor: rows, WindowSize: [2] } }, feature_level: "4_1" },
});
console.log("validate:", checked.data?.valid, checked.data?.violations[0]?.code);

const both = await client.POST("/v1/batch", {
  body: {
    requests: [{
      operator: { type: "ELEMENT_WISE_ADD", desc: { ATensor: rows, BTensor: rows } },
      inputs: { ATensor: { data }, BTensor: { data } },
      output_format: "numbers",
    }],
  },
});
for (const result of both.data?.results ?? []) {
  console.log("batch:", "outputs" in result ? JSON.stringify(result.outputs.OutputTensor?.data) : result.code);
}

const refused = await client.POST("/v1/execute", {
  body: {
    operator: { type: "REDUCE", desc: { Function: "SUM", InputTensor: rows, Axes: [5] } },
    inputs: { InputTensor: { data } },
  },
});
console.log("error:", refused.error?.status, refused.error?.violations?.[0]?.pointer);

const described = await client.GET("/v1/operators/{name}", { params: { path: { name: "GEMM" } } });
console.log("operator:", described.data?.fields.find((field) => field.name === "Alpha")?.default);

const inferred = await client.POST("/v2/models/{name}/infer", {
  params: { path: { name: "ELEMENT_WISE_ABS" } },
  body: { inputs: [{ name: "InputTensor", datatype: "FP32", shape: [2], data: [-1, 2] }] },
});
console.log("infer:", JSON.stringify(inferred.data?.outputs[0]?.data));

/** What does not compile. */
export async function mistakes(): Promise<void> {
  await client.POST("/v1/execute", {
    // @ts-expect-error: there is no such operator
    body: { operator: { type: "GEM", desc: { ATensor: rows, BTensor: rows } }, inputs: {} },
  });
  await client.POST("/v1/execute", {
    // @ts-expect-error: BTensor is missing
    body: { operator: { type: "GEMM", desc: { ATensor: rows } }, inputs: {} },
  });
  await client.POST("/v1/execute", {
    // @ts-expect-error: there is no such transform
    body: { operator: { type: "GEMM", desc: { ATensor: rows, BTensor: rows, TransA: "YES" } }, inputs: {} },
  });
  // @ts-expect-error: an operator or a graph is missing
  await client.POST("/v1/execute", { body: { inputs: {} } });
  // @ts-expect-error: outputs have no such member
  product.data?.outputs.OutputTensor?.values;
}
