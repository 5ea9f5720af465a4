/** Compares a server's results for an example with the published ones. */

import { byTensor, tensorDesc } from "./descs.js";
import { writeNumbers } from "./json/write.js";
import { ask } from "./tensor/tensors.js";

/**
 * Returns the tensors of a response by name, with their range in the body.
 * @param {any} answer @param {number} tail
 * @returns {{name: string, desc: any, from: number, to: number}[]}
 */
export function outputsOf(answer, tail) {
  let from = tail;
  return byTensor(answer.outputs).map(([name, { desc, binary_data_size: size }]) => {
    from += size;
    return { name, desc, from: from - size, to: from };
  });
}

let last = 0;

/**
 * @param {any} example
 * @param {(request: any, inputs: {name: string, blob: Blob}[]) => Promise<{answer: any, blob: Blob, tail: number}>} execute
 */
export async function matchesPublished(example, execute) {
  const prefix = `example ${++last}`;
  const inputs = [];
  for (const [name, { data }] of byTensor(example.inputs)) {
    const desc = tensorDesc(example.operator.desc, name);
    inputs.push({ name, blob: await ask("numbers", { id: `${prefix} ${name}`, text: writeNumbers(data), desc }) });
  }
  const request = {
    subject: "operator",
    text: JSON.stringify(example.operator),
    level: example.feature_level,
    device: "auto",
  };
  const { answer, blob, tail } = await execute(request, inputs);
  const tensors = outputsOf(answer, tail).map((each) => ({ ...each, id: `${prefix} ${each.name}` }));
  await ask("keep", { blob, tensors });
  let equal = true;
  const ids = [...tensors.map((each) => each.id), ...inputs.map((each) => `${prefix} ${each.name}`)];
  for (const { name, id, desc } of tensors) {
    const published = tensorDesc(example.outputs, name);
    if (published === undefined) continue;
    await ask("numbers", { id: `${id} published`, text: writeNumbers(published), desc: { ...desc, Strides: null } });
    const found = await ask("compare", { id, other: `${id} published` });
    equal &&= found.equal === found.count;
    ids.push(`${id} published`, `${id} difference`);
  }
  await ask("forget", { ids });
  return equal;
}
