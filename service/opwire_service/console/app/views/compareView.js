/** Compares an output with the published one, with that of another device, or with a file from another backend. */

import { Fragment, html, useEffect, useState } from "../../vendor/preact.js";
import { writeNumbers } from "../json/write.js";
import { ask } from "../tensor/tensors.js";
import { byteCount, DATA_TYPES, elementCount } from "../tensor/types.js";
import { Heat, Slices, useSlice } from "./tensorViews.js";

function indexOf(k, sizes) {
  const found = [];
  for (let i = sizes.length - 1; i >= 0; i--) {
    found.unshift(k % sizes[i]);
    k = Math.floor(k / sizes[i]);
  }
  return found;
}

function round(value) {
  return Number(value.toPrecision(6));
}

/** The elements that are furthest apart. */
function Worst({ found, sizes, isFloat, label }) {
  const more = found.count - found.equal - found.worst.length;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Worst elements of ${label}">
      <table class="worst">
        <caption>Worst elements${more > 0 && html`
          <span class="quiet">${found.worst.length} of ${(found.count - found.equal).toLocaleString(
            "en",
          )} that differ</span>
        `}</caption>
        <thead>
          <tr>
            <th scope="col">index</th>
            <th scope="col">this output</th>
            <th scope="col">${found.what}</th>
            ${isFloat && html`<th scope="col">ULP</th>`}
            <th scope="col">difference</th>
          </tr>
        </thead>
        <tbody>${found.worst.map(({ k, value, other, ulp, apart }) =>
          html`
            <tr>
              <th scope="row">[${indexOf(k, sizes).join(", ")}]</th>
              <td>${value}</td>
              <td>${other}</td>
              ${isFloat && html`<td>${Number.isFinite(ulp) ? ulp.toLocaleString("en") : "NaN"}</td>`}
              <td>${Number.isNaN(apart) ? "NaN" : round(apart)}</td>
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}

/** Where the tensors differ, in ULP or as absolute difference. Integers have no ULP. */
function Differences({ found, desc, isFloat, label }) {
  const [slice, setSlice] = useSlice(desc);
  const [unit, setUnit] = useState(isFloat ? "ULP" : "absolute");
  const id = unit === "ULP" ? found.ulps : found.difference;
  return html`<${Fragment}>
    ${
    isFloat &&
    html`<div class="tabs" role="group" aria-label="Unit of the differences of ${label}">${
      ["ULP", "absolute"].map((each) =>
        html`<button class="small" aria-pressed=${each === unit} onClick=${() => setUnit(each)}>${
          each === "ULP" ? "errors in ULP" : "absolute difference"
        }</button>`
      )
    }</div>`
  }
    <${Slices} desc=${desc} slice=${slice} change=${setSlice} label="the difference of ${label}" />
    <div class="differences">
      <${Heat} key=${found.what + unit} id=${id} slice=${slice} desc=${desc} block="extreme" label=${
    unit === "ULP" ? `errors of ${label} in ULP` : `the difference of ${label}`
  } />
      <${Worst} found=${found} sizes=${desc.Sizes} isFloat=${isFloat} label=${label} />
    </div>
  <//>`;
}

export function CompareView({ output, published, devices }) {
  const { id, desc, name } = output;
  const [found, setFound] = useState(null);
  const [mistake, setMistake] = useState("");
  const isFloat = DATA_TYPES.get(desc.DataType)?.float ?? false;
  const packed = { DataType: desc.DataType, Sizes: desc.Sizes };
  const other = `${id} expected`;
  const against = async (what, make) => {
    setMistake("");
    setFound(null);
    try {
      setFound({ what, ...(await ask("compare", { id, other: await make() })) });
    } catch (error) {
      setMistake(error.message);
    }
  };
  const withPublished = () =>
    against("the published output", async () => {
      await ask("numbers", { id: other, text: writeNumbers(published), desc: packed });
      return other;
    });
  const withFile = (file) =>
    file && against(file.name, async () => {
      const read = await ask("file", { id: other, file, desc: packed });
      if (
        read.dataType &&
        (read.dataType !== desc.DataType ||
          read.shape.reduce((product, size) => product * size, 1) !== elementCount(desc))
      ) {
        throw new Error(
          `the file has ${read.dataType} [${read.shape.join(", ")}]; the output is ${desc.DataType} [${
            desc.Sizes.join(", ")
          }]`,
        );
      }
      if (!read.dataType && read.size < byteCount(packed)) {
        throw new Error(`${read.size} bytes given; the output has ${byteCount(packed)}`);
      }
      return other;
    });
  useEffect(() => {
    if (published !== undefined) withPublished();
    return () => {
      ask("forget", { ids: [other, `${id} difference`, `${id} ulp`] });
    };
  }, [id]);
  const drop = (event) => {
    event.preventDefault();
    withFile(event.dataTransfer.files[0]);
  };
  return html`<div class="compare" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
    <div class="fields"><span class="quiet">compare with</span>
      ${published !== undefined && html`<button class="small" onClick=${withPublished}>published output</button>`}
      ${
    devices.filter((device) => device.id).map((device) =>
      html`<button class="small" onClick=${() =>
        against(`the device ${device.device}`, () => device.id)}>device ${device.device}</button>`
    )
  }
      <label class="inline">your backend's .npy <input type="file" accept=".npy,.bin" aria-label="Expected ${name}" onChange=${(
    event,
  ) => withFile(event.target.files[0])} /></label></div>
    ${mistake && html`<p class="bad" role="alert">${mistake}</p>`}
    ${
    found && html`<${Fragment}>
      <p role="status" class=${found.equal === found.count ? "good" : "bad"}><strong>${
      found.equal === found.count ? "✓ all equal to" : "✗ differs from"
    }</strong> ${found.what}: equal bits ${found.equal.toLocaleString("en")} of ${found.count.toLocaleString("en")}</p>
      <dl class="statistics">
        <div><dt>maximum ULP</dt><dd>${found.mostUlp}</dd></div><div><dt>mean ULP</dt><dd>${
      round(found.meanUlp)
    }</dd></div>
        <div><dt>maximum absolute difference</dt><dd>${round(found.absolute)}</dd></div>
        <div class=${found.unlike ? "odd" : ""}><dt>NaN on one side</dt><dd>${found.unlike}</dd></div>
        <div><dt>first difference</dt><dd>${
      found.first < 0 ? "–" : `[${indexOf(found.first, desc.Sizes).join(", ")}]`
    }</dd></div></dl>
      ${
      found.equal < found.count &&
      html`<${Differences} found=${found} desc=${packed} isFloat=${isFloat} label=${name} />`
    }<//>`
  }
  </div>`;
}
