/** A report of `opwire diff`, opened from a file, which stays in the browser. */

import { Fragment, html, useEffect, useRef, useState } from "../../vendor/preact.js";

/** The module that pages of `opwire diff --html` contain, too; it comes with the client. */
const RENDERER = new URL("../report.js", import.meta.url).href;
const DATA = /<script type="application\/json" id="data">(.*?)<\/script>/s;

/** Reads a report: what `opwire diff --json` printed, or a page that `--html` wrote. */
async function read(file) {
  const text = await file.text();
  const report = JSON.parse(DATA.exec(text)?.[1] ?? text);
  if (!Array.isArray(report?.nodes) || !report.verdicts) throw new Error("this is not a report of opwire diff");
  return report;
}

export function Report() {
  const place = useRef(null);
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const open = async (file) => {
    try {
      const report = await read(file);
      const { showReport } = await import(RENDERER);
      showReport(report, place.current);
      setName(file.name);
      setProblem("");
    } catch (error) {
      setProblem(`${file.name} cannot be opened: ${error.message}`);
    }
  };
  useEffect(() => {
    const over = (event) => event.preventDefault();
    const drop = (event) => {
      event.preventDefault();
      if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", drop);
    };
  }, []);
  return html`
    <${Fragment}>
      ${!name && html`
        <h1>Which operator is wrong?</h1>
        <p><code>opwire diff MODEL --against SIDE</code> compares each node of a model with its exact result. Open or drop
          what it prints with <code>--json</code>, or a page of <code>--html</code>. The file stays in this browser.</p>
      `}
      <p><label>Report <input type="file" accept=".json,.html" onChange=${(event) =>
        event.target.files[0] && open(event.target.files[0])} /></label></p>
      <p class="bad" role="alert">${problem}</p>
      <div class="report" ref=${place}></div>
      <//>
  `;
}
