/** The page of an operator: struct, support by level, rules and examples. */

import { Fragment, html, useEffect, useMemo, useState } from "../../vendor/preact.js";
import { execute, get } from "../api.js";
import { accuracyText, bandsOf, groupsOf, rankText, shortType } from "../contract.js";
import { byTensor } from "../descs.js";
import { writeNumbers } from "../json/write.js";
import { PICTURES } from "../pictures.js";
import { at } from "../place.js";
import { cStruct } from "../struct.js";
import { matchesPublished } from "../published.js";
import { devicesOf, Tensors, tryLink } from "./detail.js";
import { useContract } from "./explorer.js";
import { STATE_WORDS } from "./matrix.js";
import { breakable, Copy, ProblemNote, Status } from "./shell.js";

const NAME = decodeURIComponent(location.pathname.split("/").at(-1) ?? "").replace("DML_OPERATOR_", "");

export function OperatorPage({ server }) {
  const { contract, problem } = useContract();
  const [found, setFound] = useState({ info: null, problem: null });
  useEffect(() => {
    get(`v1/operators/${encodeURIComponent(NAME)}`).then((info) => setFound({ info, problem: null })).catch((wrong) =>
      setFound({ info: null, problem: wrong })
    );
  }, []);
  const wrong = problem ?? found.problem;
  if (wrong) {
    return html`
      <h1>${NAME}</h1>
      <${ProblemNote} problem=${wrong} />
    `;
  }
  if (!contract || !found.info) {
    return html`
      <h1>${NAME}</h1>
      <p class="quiet">Loading the contract …</p>
    `;
  }
  const { info } = found;
  const name = info.type.replace("DML_OPERATOR_", "");
  const operator = contract.operators.find((each) => each.name === name);
  document.title = `${name} · opwire`;
  const devices = devicesOf(server, name);
  const runs = operator.state === "executable"
    ? (devices.length ? `runs on ${devices.join(", ")}` : "runs")
    : STATE_WORDS[operator.state];
  return html`
    <div class="operator">
      <p><a href=${at("").href}>Operators</a> ›</p>
      <div class="title"><h1>${breakable(name)}</h1>
          <span class="actions"><a class="button main" href=${tryLink(name, "")}>Try</a>
            <${Copy} text=${cStruct(operator, contract)} label="Copy the struct in C++">copy struct (C++)<//>
            <a class="button small" href=${at(`v1/operators/${name}`).href}>JSON</a></span></div>
        <p>${info.summary}</p>
        <p class="facts"><span>from ${operator.introduced}</span><span>value ${info
          .value}</span><span class="state ${operator.state}">${runs}</span>
          <span>family <a href=${`${at("").href}#family=${operator.family}`}>${operator.family}</a></span>
          <span><a href=${info.source} target="_blank" rel="noreferrer">Microsoft's documentation of ${breakable(
            info.struct,
          )}</a></span></p>
        <p>Accuracy: ${accuracyText(operator)}.</p>
        ${name in PICTURES && html`<${Picture} name=${name} />`}
        <${Members} info=${info} />
        <${Support} operator=${operator} contract=${contract} />
        <${Rules} info=${info} name=${name} />
        <${Examples} info=${info} name=${name} operator=${operator} />
      </div>
  `;
}

/** What the operator does with one of its examples. */
function Picture({ name }) {
  const source = new URL(`../../pictures/${name.toLowerCase()}.svg`, import.meta.url).href;
  return html`
    <figure class="picture">
      <div class="scroll" tabindex="0" role="region"
        aria-label="Picture"><img src=${source} alt="The tensors of an example of ${name}, with elements in colors" /></div>
      <figcaption>${PICTURES[name]}</figcaption>
    </figure>
  `;
}

/** A table that scrolls if its words do not fit. */
function Wide({ label, children }) {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${label}>
      <table>${children}</table>
    </div>
  `;
}

function allowedOf(member) {
  if (member.values) {
    return Object.entries(member.values).map(([name, value], number) =>
      html`
        ${number ? "; " : ""}<code>${name}</code> ${value}
      `
    );
  }
  if (member.activations) {
    return Object.entries(member.activations).map(([level, names]) =>
      html`<p>from ${level.replace("DML_FEATURE_LEVEL_", "")}: ${
        names.map((name) => name.replace("ACTIVATION_", "")).join(", ")
      }</p>`
    );
  }
  if (member.least !== undefined) return `at least ${member.least}`;
  if (member.counts) return `length of ${member.counts.join(" and ")}`;
  if (member.members) return member.members.join(", ");
  if (member.data_type) return `number of the data type given by ${member.data_type}`;
  if (member.count) return `length given by ${member.count}`;
  return "";
}

function isRequired(member) {
  return !(member.optional || member.role?.startsWith("optional") || member.kind === "count" ||
    "default" in member || member.role?.includes("output"));
}

function Members({ info }) {
  const limited = info.fields.some((member) => allowedOf(member));
  return html`
    <section aria-labelledby="members">
      <h2 id="members">Members</h2>
      <${Wide} label="Table of members">
        <thead>
          <tr>
            <th scope="col">name</th>
            <th scope="col">kind</th>
            <th scope="col">required</th>
            ${limited && html`<th scope="col">allowed</th>`}
          </tr>
        </thead>
        <tbody>${info.fields.map((member) =>
          html`
            <tr>
              <th scope="row"><code>${member.name}</code></th>
              <td>${member.role ? `${member.kind}, ${member.role}` : member.number ?? member.struct ?? member.kind}</td>
              <td>${isRequired(member)
                ? "yes"
                : member.kind === "count" || member.role === "output"
                ? "derived"
                : "default" in member
                ? html`no: <code>${member.default}</code>`
                : "no"}</td>
              ${limited && html`<td>${allowedOf(member)}</td>`}
            </tr>
          `
        )}</tbody>
        <//>
        </section>
  `;
}

function Support({ operator, contract }) {
  const { levels } = contract;
  const groups = [...groupsOf(operator).keys()];
  const [when, setWhen] = useState(groups[0]);
  const bands = useMemo(() => bandsOf(operator, levels, when), [operator, when]);
  const [chosen, setChosen] = useState(null);
  const band = bands.find((each) => each.from === chosen) ?? bands.at(-1);
  const before = bands[bands.indexOf(band) - 1];
  const types = [...new Set(bands.flatMap((each) => each.types))];
  const names = Object.keys(band.rows[0].tensors);
  return html`<section aria-labelledby="support"><h2 id="support">Support by feature level</h2>
    ${
    groups.length > 1 && html`<div class="tabs" role="group" aria-label="Attribute values">${
      groups.map((each) =>
        html`
          <button class="small" aria-pressed=${each === when} onClick=${() => {
            setWhen(each);
            setChosen(null);
          }}>${each}</button>
        `
      )
    }</div>`
  }
    <div class="tabs" role="group" aria-label="Feature levels">${
    bands.map((each) =>
      html`
        <button class="small" aria-pressed=${each === band} onClick=${() => setChosen(each.from)}>
          ${levels[each.from]}${each.to > each.from ? ` to ${levels[each.to]}` : ""}${each.news.length || each.wider
            ? html`
              <span class="new">^</span>
            `
            : ""}</button>
      `
    )
  }</div>
    <div class="scroll" tabindex="0" role="region" aria-label="Data types"><table class="levels">
      <caption class="offscreen">Data types of each tensor</caption>
      <thead><tr><th scope="col">tensor</th><th scope="col">ranks</th>${
    types.map((type) => html`<th scope="col"><abbr title=${type}>${shortType(type)}</abbr></th>`)
  }</tr></thead>
      <tbody>${
    names.map((name) => {
      const limits = band.rows[0].tensors[name];
      const old = before?.rows[0].tensors[name];
      return html`<tr><th scope="row">${name}</th>
          <td>${rankText(limits.ranks).slice(1)}${
        old && String(old.ranks) !== String(limits.ranks)
          ? html`
            <span class="new">^</span>
          `
          : ""
      }</td>
          ${
        types.map((type) =>
          limits.data_types.includes(type)
            ? html`<td class="yes"><span aria-hidden="true">✓</span><span class="offscreen">yes</span>${
              old && !old.data_types.includes(type)
                ? html`<span class="new" title="new at ${levels[band.from]}">^</span>`
                : ""
            }</td>`
            : html`<td class="no">–<span class="offscreen">no</span></td>`
        )
      }</tr>`;
    })
  }</tbody></table></div>
    <details><summary>As text</summary><${Tensors} rows=${band.rows} before=${before?.rows} /></details></section>`;
}

function badLink(bad) {
  const state = {
    v: 1,
    level: bad.feature_level.replace("DML_FEATURE_LEVEL_", ""),
    text: JSON.stringify(bad.operator, null, 2),
  };
  return `${at("try").href}#json=${encodeURIComponent(JSON.stringify(state))}`;
}

function Rules({ info, name }) {
  if (!info.rules.length && !info.bad_examples.length) {
    return html`
      <section aria-labelledby="rules">
        <h2 id="rules">Rules</h2>
        <p class="quiet">${name} has no rules beyond its members and its support.</p>
      </section>
    `;
  }
  const rest = info.bad_examples.filter((bad) => !info.rules.some((rule) => rule.code === bad.code));
  const fail = (bad) =>
    html`
      <a href=${badLink(bad)}>see it fail: ${bad.name.replaceAll("_", " ")}</a>
    `;
  return html`
    <section aria-labelledby="rules">
      <h2 id="rules">Rules</h2>
      <${Wide} label="Table of rules">
        <thead>
          <tr>
            <th scope="col">code</th>
            <th scope="col">rule</th>
            <th scope="col">members</th>
            <th scope="col"><span class="offscreen">example</span></th>
          </tr>
        </thead>
        <tbody>${info.rules.map((rule, i) => {
          const first = info.rules.findIndex((each) => each.code === rule.code) === i;
          return html`
            <tr>
              <th scope="row"><code>${rule.code}</code></th>
              <td>${rule.text}</td>
              <td>${rule.members.join(", ")}</td>
              <td>${first ? info.bad_examples.filter((bad) => bad.code === rule.code).map(fail) : ""}</td>
            </tr>
          `;
        })}
        ${rest.map((bad) =>
          html`
            <tr>
              <th scope="row"><code>${bad.code}</code></th>
              <td class="quiet">applies to all operators</td>
              <td></td>
              <td>${fail(bad)}</td>
            </tr>
          `
        )}
        </tbody>
        <//>
        </section>
  `;
}

function Examples({ info, name, operator }) {
  const [answers, setAnswers] = useState({});
  const [problem, setProblem] = useState(null);
  const check = async () => {
    setProblem(null);
    for (const example of info.examples) {
      try {
        const equal = await matchesPublished(
          example,
          (request, inputs) => execute(request, inputs, new AbortController().signal),
        );
        setAnswers((now) => ({ ...now, [example.name]: equal ? "equal" : "differs" }));
      } catch (wrong) {
        setProblem(wrong);
        return;
      }
    }
  };
  const done = Object.values(answers);
  return html`<section aria-labelledby="examples"><h2 id="examples">Examples</h2>
    ${
    operator.state === "executable" &&
    html`<p><button onClick=${check}>Compare this server's results with the published ones</button></p>`
  }
    <${Status}>${
    done.length > 0 && `${
      done.filter((each) => each === "equal").length
    } of ${info.examples.length} results equal the published ones`
  }<//>
    ${problem && html`<${ProblemNote} problem=${problem} again=${check} />`}
    ${info.examples.length === 0 && html`<p class="quiet">None: the operator is known, but not declared.</p>`}
    ${
    info.examples.map((example) =>
      html`
        <${Fragment}>
          <details class="example">
            <summary><strong>${example.name.replaceAll("_", " ")}</strong>
                ${answers[example.name] &&
                  html`<span class=${answers[example.name] === "equal" ? "good" : "bad"}>${
                    answers[example.name] === "equal" ? "✓ equal" : "✗ differs"
                  }</span>`}
                <span class="quiet">${example.source}</span></summary>
            <pre tabindex="0" aria-label="Desc">${JSON.stringify(example.operator.desc, null, 1)}</pre>
            <${Wide} label=${`Tensors of ${example.name}`}>
              <tbody>
                ${byTensor(example.inputs).map(([tensor, { data }]) =>
                  html`
                    <tr>
                      <th scope="row">${tensor}</th>
                      <td><code>${writeNumbers(data)}</code></td>
                    </tr>
                  `
                )}
                ${Object.entries(example.outputs).map(([tensor, data]) =>
                  html`
                    <tr>
                      <th scope="row">→ ${tensor}</th>
                      <td><code>${writeNumbers(data)}</code></td>
                    </tr>
                  `
                )}
              </tbody>
              <//>
              <p class="actions"><a class="button" href=${tryLink(name, "", example.name)}>Try</a></p>
              </details>
              <//>
      `
    )
  }
  </section>`;
}
