/** Input tensors and the source of their values. */

import { html, useState } from "../../vendor/preact.js";
import { isModel } from "../onnx.js";
import { byteCount, dataType, descMistake, elementCount } from "../tensor/types.js";

export const KINDS = {
  numbers: "numbers",
  random: "random",
  ramp: "ramp",
  constant: "constant",
  special: "special values",
  file: "file .npy/.bin",
  picture: "image",
};

/** Returns the default recipe of a tensor. */
function firstRecipe(desc) {
  return dataType(desc?.DataType)?.float
    ? { kind: "random", of: "uniform", seed: 1, low: -1, high: 1 }
    : { kind: "random", of: "integers", seed: 1, low: 0, high: 9 };
}

/**
 * Returns the recipe of a tensor: the chosen one, the one that came with it, or the default.
 * @param {Record<string, any>} recipes @param {{name: string, desc: any, recipe?: any}} tensor
 */
export function recipeOf(recipes, { name, desc, recipe }) {
  return recipes[name] ?? recipe ?? firstRecipe(desc);
}

const DEFAULTS = {
  numbers: { kind: "numbers", text: "" },
  ramp: { kind: "ramp", start: 0, step: 1 },
  constant: { kind: "constant", value: "1" },
  special: { kind: "special" },
  file: { kind: "file" },
  picture: { kind: "picture", layout: "NCHW", scale: "0..255" },
};

function Field({ label, value, type = "number", onInput }) {
  return html`<label class="inline">${label} <input type=${type} step="any" value=${value} onInput=${(event) =>
    onInput(type === "number" ? Number(event.target.value) : event.target.value)} /></label>`;
}

/** The options of a recipe. */
function Options({ name, recipe, set, useDesc, desc }) {
  const change = (changed) => set({ ...recipe, ...changed });
  if (recipe.kind === "numbers") {
    return html`
      <textarea rows=${Math.min(
        8,
        1 + (recipe.text.match(/\n/g)?.length ?? 0) + Math.floor(recipe.text.length / 60),
      )} spellcheck=${false}
        aria-label="Numbers of ${name}" placeholder="[[1, 5, 2], [9, NaN, 3]]" value=${recipe.text}
        onInput=${(event) => change({ text: event.target.value })}></textarea>
    `;
  }
  if (recipe.kind === "random") {
    const labels = recipe.of === "normal" ? ["mean", "std. dev."] : ["from", "to"];
    return html`<div class="fields"><select aria-label="Distribution of ${name}" value=${recipe.of} onChange=${(
      event,
    ) => change({ of: event.target.value })}>
      ${
      ["uniform", "normal", "integers"].map((of) =>
        html`<option value=${of} selected=${of === recipe.of}>${of}</option>`
      )
    }</select>
      <${Field} label=${labels[0]} value=${recipe.low} onInput=${(low) => change({ low })} /><${Field} label=${
      labels[1]
    } value=${recipe.high} onInput=${(high) => change({ high })} />
      <${Field} label="seed" value=${recipe.seed} onInput=${(seed) =>
      change({ seed: Math.abs(Math.trunc(seed)) % 2 ** 32 })} /></div>`;
  }
  if (recipe.kind === "ramp") {
    return html`
      <div class="fields">
        <${Field} label="start" value=${recipe.start} onInput=${(start) => change({ start })} />
        <${Field} label="step" value=${recipe.step} onInput=${(step) => change({ step })} />
      </div>
    `;
  }
  if (recipe.kind === "constant") {
    return html`
      <div class="fields">
        <${Field} label="value" type="text" value=${recipe.value} onInput=${(value) => change({ value })} />
      </div>
    `;
  }
  if (recipe.kind === "special") {
    return html`<p class="quiet">${
      dataType(desc?.DataType)?.float
        ? "NaN, infinities, signed zeros, subnormals, extremes, ties, equal values"
        : "extremes and their neighbors, 0, 1, equal values"
    }</p>`;
  }
  const choose = (event) =>
    event.target.files[0] && change({ file: event.target.files[0].name, blob: event.target.files[0] });
  return html`<div class="fields">
    <label class="inline">${recipe.kind === "picture" ? "image" : "file"} <input type="file" accept=${
    recipe.kind === "picture" ? "image/*" : ".npy,.bin,.raw"
  } onChange=${choose} /></label>
    ${
    recipe.file && !recipe.blob &&
    html`<span class="bad">choose ${recipe.file} again: links do not include files</span>`
  }
    ${
    recipe.kind === "picture" && html`
      <select aria-label="Layout of ${name}" onChange=${(event) => change({ layout: event.target.value })}>${[
        "NCHW",
        "NHWC",
      ].map((each) => html`<option selected=${each === recipe.layout}>${each}</option>`)}</select>
      <select aria-label="Scale of ${name}" onChange=${(event) => change({ scale: event.target.value })}>${[
        "0..255",
        "0..1",
      ].map((each) => html`<option selected=${each === recipe.scale}>${each}</option>`)}</select>
    `
  }
    ${
    recipe.stored && useDesc &&
    (recipe.stored.dataType !== desc.DataType || String(recipe.stored.shape) !== String(desc.Sizes)) &&
    html`
      <button class="small" onClick=${() => useDesc(name, recipe.stored)}>Use its ${recipe.stored.dataType} [${recipe
        .stored.shape.join(", ")}] in the desc</button>
    `
  }
  </div>`;
}

function Input({ name, desc, recipe, set, mistake, useDesc }) {
  const [over, setOver] = useState(false);
  const wrong = descMistake(desc);
  const drop = (event) => {
    setOver(false);
    const file = event.dataTransfer.files[0];
    if (isModel(file)) return; // the page opens it
    event.preventDefault();
    if (file) set({ ...DEFAULTS[file.type.startsWith("image/") ? "picture" : "file"], file: file.name, blob: file });
  };
  return html`<fieldset class="input ${over ? "over" : ""}" onDragOver=${(event) => {
    event.preventDefault();
    setOver(true);
  }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <legend><strong>${name}</strong> <span class="quiet">${
    wrong ??
      `${String(desc.DataType).replace("DML_TENSOR_DATA_TYPE_", "")} [${desc.Sizes.join(", ")}]${
        desc.Strides ? ` strides [${desc.Strides.join(", ")}]` : ""
      }, ${byteCount(desc).toLocaleString("en")} bytes, ${elementCount(desc).toLocaleString("en")} elements`
  }</span></legend>
    <div class="kinds" role="radiogroup" aria-label="Values of ${name}">${
    Object.entries(KINDS).map(([kind, label]) =>
      html`
        <label
          class="inline"><input type="radio" name=${`kind ${name}`} checked=${recipe.kind === kind} onChange=${() =>
            set(kind === "random" ? firstRecipe(desc) : DEFAULTS[kind])} /> ${label}</label>
      `
    )
  }</div>
    <${Options} name=${name} recipe=${recipe} set=${set} useDesc=${useDesc} desc=${desc} />
    ${mistake && html`<p class="bad" role="alert">${mistake}</p>`}
  </fieldset>`;
}

export function Inputs({ tensors, recipes, set, mistakes, useDesc }) {
  if (!tensors.length) return html`<p class="quiet">No input tensors.</p>`;
  return tensors.map((tensor) =>
    html`
      <${Input} key=${tensor.name} ...${tensor} recipe=${recipeOf(recipes, tensor)} set=${(recipe) =>
        set(tensor.name, recipe)} mistake=${mistakes[tensor.name]}
        useDesc=${useDesc} />
    `
  );
}
