/** Runs a request: generates the inputs, sends them, and stores the outputs in the worker. */

import { Problem } from "../api.js";
import { outputsOf } from "../published.js";
import { ask } from "../tensor/tensors.js";
import { byteCount, descMistake } from "../tensor/types.js";
import { recipeOf } from "./inputs.js";

let last = 0;

/**
 * Returns the buffer of an input.
 * @returns {Promise<{blob: Blob, recipe?: any}>} recipe includes the type and shape found in a file
 */
export async function material(id, desc, recipe) {
  const wrong = descMistake(desc);
  if (wrong) throw new Error(wrong);
  if (recipe.kind === "numbers") return { blob: await ask("numbers", { id, text: recipe.text, desc }) };
  if (recipe.kind === "picture") {
    if (!recipe.blob) throw new Error("choose an image");
    const { layout, scale } = recipe;
    return { blob: await ask("picture", { id, file: recipe.blob, desc, recipe: { layout, scale } }) };
  }
  if (recipe.kind !== "file") return { blob: await ask("generate", { id, recipe, desc }) };
  if (!recipe.blob) throw new Error(recipe.file ? `choose ${recipe.file} again` : "choose a file");
  const found = await ask("file", { id, file: recipe.blob, desc });
  if (!found.dataType) {
    if (found.size < byteCount(desc)) throw new Error(`${found.size} bytes given; the desc needs ${byteCount(desc)}`);
    return { blob: recipe.blob };
  }
  const stored = { dataType: found.dataType, shape: found.shape };
  const known = { ...recipe, stored };
  if (found.dataType !== desc.DataType || String(found.shape) !== String(desc.Sizes)) {
    throw Object.assign(
      new Error(
        `the file has ${found.dataType} [${found.shape.join(", ")}]; the desc says ${desc.DataType} [${
          desc.Sizes.join(", ")
        }]`,
      ),
      { recipe: known },
    );
  }
  return { blob: found.blob, recipe: known };
}

/**
 * Rejects inputs that exceed the limit of the server before they are generated.
 * @param {{desc: any}[]} tensors @param {Record<string, number> | undefined} limits
 */
function refuseTooLarge(tensors, limits) {
  const size = tensors.reduce((sum, { desc }) => sum + (descMistake(desc) ? 0 : byteCount(desc)), 0);
  refuseLarger(size, limits, "the input tensors exceed");
}

/** @param {number} size @param {Record<string, number> | undefined} limits @param {string} what is too large */
export function refuseLarger(size, limits, what) {
  const limit = limits?.body_bytes ?? Infinity;
  if (size <= limit) return;
  const detail = `${what} the size limit of a request; nothing was sent`;
  throw new Problem({ status: 413, title: "Body too large", detail, members: { limit, size: `${size} bytes` } });
}

/**
 * @param {{subject: string, text: string, level: string, device: string, timeout?: number, names?: Map<string, string>,
 *   limits?: Record<string, number>}} request names maps outputs to other names, limits are the server's
 * @param {{name: string, desc: any, recipe?: any}[]} tensors @param {Record<string, any>} recipes
 * @param {Function} execute of api.js @param {AbortSignal} signal
 */
export async function runRequest(request, tensors, recipes, execute, signal) {
  const prefix = `run ${++last}`;
  refuseTooLarge(tensors, request.limits);
  const inputs = [];
  const mistakes = {};
  const changed = {};
  for (const tensor of tensors) {
    const { name, desc } = tensor;
    try {
      const { blob, recipe } = await material(`${prefix} ${name}`, desc, recipeOf(recipes, tensor));
      inputs.push({ name, blob });
      if (recipe) changed[name] = recipe;
    } catch (error) {
      mistakes[name] = error.message;
      if (error.recipe) changed[name] = error.recipe;
    }
  }
  if (Object.keys(mistakes).length) return { mistakes, recipes: changed };
  await ask("forget", { ids: inputs.map(({ name }) => `${prefix} ${name}`) });
  const { answer, blob, tail, milliseconds } = await execute(request, inputs, signal);
  const outputs = outputsOf(answer, tail).map((each) => {
    const name = request.names?.get(each.name) ?? each.name;
    return { ...each, name, id: `${prefix} → ${name}` };
  });
  await ask("keep", { blob, tensors: outputs });
  return { outputs, answer, milliseconds, request };
}
