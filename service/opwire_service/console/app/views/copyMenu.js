/** Dialog that shows the request as a command, a program or a file to copy. */

import { Fragment, html, useRef, useState } from "../../vendor/preact.js";
import { key } from "../api.js";
import { base } from "../place.js";
import { curl, dxDispatch, powershell, python, requestJson } from "../snippets.js";
import { ask } from "../tensor/tensors.js";
import { elementCount } from "../tensor/types.js";
import { recipeOf } from "./inputs.js";
import { material } from "./running.js";
import { copy } from "./shell.js";

const MOST_INLINE = 64;
const FORMS = {
  curl: "curl",
  python: "Python",
  powershell: "PowerShell",
  model: "DxDispatch model",
  json: "request as JSON",
};

/** Collects the request, with the values of its small inputs. */
async function gather({ doc, subject, tensors }) {
  const inputs = [];
  /** @type {Record<string, string>} */
  const values = {};
  for (const tensor of tensors) {
    const { name, desc } = tensor;
    const recipe = recipeOf(doc.recipes, tensor);
    const id = `copy ${name}`;
    await material(id, desc, recipe);
    const isSmall = elementCount(desc) <= MOST_INLINE;
    inputs.push({ name, desc, recipe, base64: isSmall ? await ask("base64", { id }) : null });
    values[name] = isSmall ? await ask("list", { id }) : '{ "sourcePath": "' + name + '.npy" }';
    await ask("forget", { ids: [id] });
  }
  const request = {
    url: base.href,
    level: doc.level,
    device: doc.device,
    subject: subject.kind,
    text: subject.plain.trim(),
    operator: subject.value,
    inputs,
    hasKey: !!key(),
  };
  return { request, values };
}

export async function snippet(form, bench) {
  const { request, values } = await gather(bench);
  if (form === "model") {
    const outputs = Object.entries(bench.validation?.outputs ?? {}).flatMap(([name, desc]) =>
      Array.isArray(desc) ? desc.map((each, i) => ({ name: `${name}[${i}]`, desc: each })) : [{ name, desc }]
    );
    return dxDispatch(request, outputs, values);
  }
  if (form === "json") return requestJson(request);
  return { curl, python, powershell }[form](request);
}

export function CopyMenu({ bench }) {
  const dialog = useRef(null);
  const [form, setForm] = useState("curl");
  const [text, setText] = useState("");
  const [done, setDone] = useState("");
  const isGraph = bench.subject.kind === "graph"; // DxDispatch has no JSON form for graphs
  const forms = Object.entries(FORMS).filter(([name]) => !isGraph || name !== "model");
  const show = async (chosen) => {
    setForm(chosen);
    setDone("");
    try {
      setText(bench.subject.kind === "model" ? bench.subject.plain : await snippet(chosen, bench));
    } catch (error) {
      setText(`Cannot generate this: ${error.message}`);
    }
  };
  const open = async () => {
    await show(isGraph && form === "model" ? "curl" : form);
    dialog.current.showModal();
  };
  return html`
    <${Fragment}>
      <button onClick=${open} disabled=${bench.subject.mistakes.length > 0}>Copy as …</button>
      <dialog ref=${dialog} class="copy" aria-labelledby="copy-title">
        <h2 id="copy-title">Copy as</h2>
        <div class="tabs" role="group" aria-label="Format">${forms.map(([name, label]) =>
          html`<button class="small" aria-pressed=${name === form} onClick=${() => show(name)}>${label}</button>`
        )}</div>
        <pre tabindex="0" aria-label="Text">${text}</pre>
        <p
          class="quiet">Tensors with more than ${MOST_INLINE} elements are read from files or generated. The API key is read from OPWIRE_API_KEY.</p>
        <p class="actions"><button class="main" onClick=${async () => {
          setDone(await copy(text) ? "Copied." : "Could not copy. Select the text and copy it manually.");
        }}>Copy</button>
            <button onClick=${() => dialog.current.close()}>Close</button> <span role="status">${done}</span></p>
      </dialog>
      <//>
  `;
}
