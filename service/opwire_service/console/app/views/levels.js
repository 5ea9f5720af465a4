/** The levels at which a desc is valid, and the lists of its violations and warnings. */

import { html } from "../../vendor/preact.js";

export function LevelStrip({ levels, level, validation, choose }) {
  const minimum = validation?.minimum ?? null;
  const first = minimum ? levels.indexOf(minimum) : levels.length;
  return html`<div class="levels" role="radiogroup" aria-label="Feature level">
    ${
    levels.map((each, i) =>
      html`
        <button class="small ${validation
          ? (i >= first ? "ok" : "not")
          : ""}" role="radio" aria-checked=${each === level} onClick=${() => choose(each)}
          aria-label=${`${each}${
            validation ? (i >= first ? ", valid" : ", not valid") : ""
          }`}>${each} <span aria-hidden="true">${validation ? (i >= first ? "✓" : "✗") : "·"}</span></button>
      `
    )
  }
    ${
    validation && html`<span class="passes">${
      minimum
        ? html`valid from <strong>${minimum}</strong> ${
          minimum !== level && first > levels.indexOf(level)
            ? html`<button class="small" onClick=${() => choose(minimum)}>set</button>`
            : ""
        }`
        : "not valid at any level"
    }</span>`
  }
  </div>`;
}

/** Writes a count with its noun. @param {number} count @param {string} noun */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function Violations({ marks, warnings, stale, go, setLevel, level, levels }) {
  const first = marks[0];
  const count = counted(marks.length, "violation");
  const is = marks.length && marks[0].code === "invalid_json" ? "not valid JSON yet" : count;
  return html`<div class="violations ${stale ? "stale" : ""}">
    <p role="status" class="summary ${marks.length ? "bad" : ""}">${
    marks.length ? `${is}; first on line ${first.line}` : ""
  }</p>
    ${
    marks.length > 0 && html`<ul id="violations">${
      marks.map((mark) =>
        html`<li>
      <button class="go" onClick=${() => go(mark)}>L${mark.line} <code>${mark.title}</code></button>${" "}
      <span class="message">${mark.message}</span> <code class="quiet">[${mark.code}]</code>
      ${
          mark.level && levels.indexOf(mark.level) > levels.indexOf(level) && html`
            <span
              class="fix">valid from <button class="small" onClick=${() =>
                setLevel(mark.level)} aria-label="Set level ${mark.level}">${mark.level}</button></span>
          `
        }
    </li>`
      )
    }</ul>`
  }
    ${
    warnings.length > 0 && html`
      <details open class="warned">
        <summary>${counted(warnings.length, "warning")}</summary>
        <ul id="warnings">${warnings.map((mark) =>
          html`<li>
      <button class="go" onClick=${() => go(mark)}>L${mark.line} <code>${mark.title}</code></button>${" "}
      <span class="message">${mark.message}</span> <code class="quiet">[${mark.code}]</code>
    </li>`
        )}</ul>
      </details>
    `
  }
  </div>`;
}
