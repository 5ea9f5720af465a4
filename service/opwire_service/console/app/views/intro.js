/** What the operator table shows, and where to begin. */

import { html } from "../../vendor/preact.js";
import { at } from "../place.js";
import { recall, remember } from "../storage.js";
import { tryLink } from "./detail.js";

const INTRO = "opwire-intro";

/** Whether the introduction is unfolded: until it is folded in this tab, unless the address asks for something. */
function isUnfolded() {
  return recall(INTRO) !== "off" && location.hash.length < 2;
}

function Cell({ changed = "", answer = "", children }) {
  return html`<dt><span class="sample band ${answer} ${changed}">${children}</span></dt>`;
}

/** The legend of the cells. On narrow screens, each operator is a line of text, which needs none. */
function Legend() {
  return html`
    <dl class="samples">
      <${Cell}><span class="count">8</span>, r1-8<//>
      <dd>8 data types, at ranks 1 to 8. A cell spans all levels with the same support.</dd>
      <${Cell} changed="changed"><span class="count">10</span>, r1-8 <span class="new">^ I64 U64</span><//>
      <dd>What this level adds: INT64 and UINT64. Without a type, more ranks or a tensor that takes more.</dd>
      <dt><span class="sample">–</span></dt>
      <dd>The level does not have the operator.</dd>
      <${Cell} answer="yes">✓ yes<//>
      <dd>With a filter: accepts it; <b>✗</b> does not; <b>◐</b> for some tensors or attribute values.</dd>
    </dl>
  `;
}

/** @type {[() => string, string, string][]} */
const STARTS = [
  [() => tryLink("GEMM", ""), "Try an operator", "Write a desc, see every violation as you type, and run it."],
  [() => tryLink("GRAPH", ""), "Try a graph", "Several operators, drawn with the level and the tensors of each."],
  [() => at("operators/REDUCE").href, "Read about one", "Members, support, rules and worked examples, as of REDUCE."],
  [() => at("docs").href, "Call it", "All routes of the API, with schemas and examples."],
];

export function Intro({ narrow }) {
  const folded = (event) => remember(INTRO, event.target.open ? null : "off");
  return html`
    <details class="intro" open=${isUnfolded()} onToggle=${folded}>
      <summary>What this is, and where to begin</summary>
      <div class="columns">
        <div>
          <p>All operators of DirectML by <dfn>feature level</dfn>, the version of its contract that a device supports.${" "}
              ${narrow
                ? "Tap the second line of an operator"
                : "Click a cell"} for the data types of each tensor at that level.</p>
          ${!narrow && html`<${Legend} />`}
        </div>
        <ul class="starts">${STARTS.map(([href, name, does]) =>
          html`<li><a href=${href()}>${name}</a> <span class="quiet">${does}</span></li>`
        )}</ul>
      </div>
    </details>
  `;
}
