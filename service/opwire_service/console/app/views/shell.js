/** Parts of every page: header, key dialog, keyboard shortcuts, messages, and startup. */

import { Fragment, h, html, render, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { get, keep, key, onUnauthorized } from "../api.js";
import { at } from "../place.js";
import { recall, remember } from "../storage.js";

const THEMES = { auto: "◐", light: "○", dark: "●" };

function readTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "auto") localStorage.removeItem("opwire-theme");
    else localStorage.setItem("opwire-theme", theme);
  } catch {
    // Without storage, the theme lasts until the page is closed.
  }
  document.dispatchEvent(new CustomEvent("opwire-theme"));
}

function Theme() {
  const [theme, setTheme] = useState(readTheme);
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(theme) + 1) % names.length];
  const change = () => {
    applyTheme(next);
    setTheme(next);
  };
  return html`
    <button class="plain" onClick=${change} title="Theme: ${theme}; switch to ${next}"
      aria-label="Theme: ${theme}; switch to ${next}">
        <span aria-hidden="true">${THEMES[theme]}</span> <span class="wide">${theme}</span></button>
  `;
}

/** Describes the server in the header: readiness and devices, or why they are unknown. */
export function serverLine(server, problem) {
  if (problem) return problem.status === 401 ? "key needed" : problem.status ? problem.title : "unreachable";
  if (!server) return "…";
  return `${server.ready ? "ready" : "not ready"}, ${server.devices.map((device) => device.name).join(" + ")}`;
}

const LOGO = new URL("../../icon.svg", import.meta.url).href;

function Header({ page, server, problem, openKey }) {
  const links = [["", "Operators", "index"], ["try", "Try", "try"], ["live", "Live", "live"], ["docs", "API", "docs"]];
  return html`
    <header class="top">
      <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
      <a class="brand"
        href=${at("")
          .href}><img src=${LOGO} alt="" width="24" height="24" />opwire <span class="quiet">${server?.version ??
          ""}</span></a>
      <nav aria-label="Pages">${links.map(([path, name, own]) =>
        html`
          <a href=${at(path).href} aria-current=${own === page || (page === "operator" && own === "index")
            ? "page"
            : undefined}>${name}</a>
        `
      )}</nav>
      <span class="server"><span class="wide">server: </span>${serverLine(server, problem)}</span>
      <button class="plain" onClick=${openKey}>${key() ? "key ✓" : "key"}</button>
      <${Theme} />
    </header>
  `;
}

/** Only moves the focus: the fragment of the address is the state of the page. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @type {((problem: any) => Promise<boolean>) | null} */
let openDialog = null;

/** Opens the key dialog. @returns true once there is a key that the server accepts */
export function askKey(problem) {
  return openDialog ? openDialog(problem) : Promise.resolve(false);
}

function KeyDialog() {
  const dialog = useRef(null);
  const field = useRef(null);
  const done = useRef(null);
  const [state, setState] = useState({ problem: null, wrong: "" });
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    let asking = null;
    openDialog = (problem) => {
      asking ??= new Promise((resolve) => {
        done.current = (value) => {
          asking = null;
          resolve(value);
        };
        setState({ problem, wrong: "" });
        dialog.current.showModal();
        field.current?.focus();
      });
      return asking;
    };
    onUnauthorized(openDialog);
    return () => onUnauthorized(null);
  }, []);
  const close = (value) => {
    field.current.value = "";
    dialog.current.close();
    done.current?.(value);
    done.current = null;
  };
  const test = async (event) => {
    event.preventDefault();
    const before = key();
    setBusy(true);
    keep(field.current.value.trim());
    try {
      await get("v1/server", { quiet: true });
      close(true);
      document.dispatchEvent(new CustomEvent("opwire-key"));
    } catch (error) {
      keep(before);
      setState({ ...state, wrong: error.status === 401 ? "The server rejected this key." : error.message });
    } finally {
      setBusy(false);
    }
  };
  const forget = () => {
    keep(null);
    close(false);
    document.dispatchEvent(new CustomEvent("opwire-key"));
  };
  return html`
    <dialog ref=${dialog} class="key" aria-labelledby="key-title" onCancel=${() => close(false)}>
      <form onSubmit=${test}>
        <h2 id="key-title">API key</h2>
        <p>${state.problem
          ? "The server requires an API key."
          : key()
          ? "This tab has a key."
          : "This server may require a key."}
            The key is kept only in this tab and sent as a header.</p>
        <label>Key <input ref=${field} type="password" autocomplete="off" spellcheck=${false} required aria-describedby="key-wrong" /></label>
        <p id="key-wrong" class="bad" role="alert">${state.wrong}</p>
        <p class="actions"><button class="main" disabled=${busy}>Use this key</button>
            ${key() && html`<button type="button" onClick=${forget}>Forget key</button>`}
            <button type="button" onClick=${() => close(false)}>Cancel</button></p>
      </form>
    </dialog>
  `;
}

const KEYS = [
  ["/", "search"],
  ["?", "show this list"],
  ["arrows, Home, End", "move in the operator table"],
  ["Enter, Escape", "open and close a row"],
  ["Ctrl+Enter", "run"],
  ["F8, Shift+F8", "next and previous violation"],
  ["Ctrl+Space", "complete"],
  ["Tab", "leave the editor"],
];

const LETTERS = "opwire-letters";

const lettersAreKeys = () => recall(LETTERS) !== "off";

function Keys() {
  const dialog = useRef(null);
  const [on, setOn] = useState(lettersAreKeys);
  useLayoutEffect(() => {
    const pressed = (event) => {
      const inText = event.composedPath().some((each) =>
        each instanceof HTMLElement && (each.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(each.tagName))
      );
      if (inText || event.ctrlKey || event.metaKey || event.altKey || !lettersAreKeys()) return;
      if (event.key === "?") dialog.current.showModal();
      const search = event.key === "/" && /** @type {HTMLElement | null} */
        (document.querySelector("input[type=search]"));
      if (search) {
        event.preventDefault();
        search.focus();
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  const change = (event) => {
    remember(LETTERS, event.target.checked ? null : "off");
    setOn(event.target.checked);
  };
  return html`
    <${Fragment}>
      <footer
        class="bottom"><a href=${at("report").href}>Reports</a> <button class="plain" onClick=${() =>
          dialog.current.showModal()}>Shortcuts <kbd>?</kbd></button></footer>
      <dialog ref=${dialog} aria-labelledby="keys-title">
        <h2 id="keys-title">Keyboard shortcuts</h2>
        <dl class="keys">${KEYS.map(([name, does]) =>
          html`
            <dt><kbd>${name}</kbd></dt>
            <dd>${does}</dd>
          `
        )}</dl>
        <label
          class="inline"><input type="checkbox" checked=${on} onChange=${change} /> Enable the / and ? shortcuts</label>
        <p class="actions"><button onClick=${() => dialog.current.close()}>Close</button></p>
      </dialog>
      <//>
  `;
}

/** A problem with the server's explanation and advice. */
export function ProblemNote({ problem, again }) {
  const [left, setLeft] = useState(Math.ceil(problem.retryAfter));
  useEffect(() => {
    setLeft(Math.ceil(problem.retryAfter));
    if (!problem.retryAfter) return undefined;
    const timer = setInterval(() => setLeft((now) => Math.max(0, now - 1)), 1000);
    return () => clearInterval(timer);
  }, [problem]);
  return html`<div class="note bad" role="alert">
    <strong>${problem.title ?? "Error"}</strong>${
    problem.status
      ? html`
        ${" "}<span class="quiet">status ${problem.status}</span>
      `
      : ""
  }
    <p>${problem.detail ?? problem.message}</p>
    ${adviceFor(problem) && html`<p>${adviceFor(problem)}</p>`}
    ${
    again &&
    html`<p><button onClick=${again} disabled=${left > 0}>${
      left > 0 ? `Run again in ${left} s` : "Run again"
    }</button></p>`
  }
    ${
    problem.requestId &&
    html`<p class="quiet">request ${problem.requestId} <${Copy} text=${problem.requestId} label="Copy the request id">copy<//></p>`
  }
  </div>`;
}

function adviceFor({ status, members }) {
  const { limit, size, stage } = members ?? {};
  if (status === 401) return "Enter a key with the button in the header.";
  if (status === 413 && limit !== undefined) return `${size} given, ${limit} allowed.`;
  if (status === 429) return "The server is busy.";
  if (status === 500) return "The server log has the reason, under the request id.";
  if (status === 503) return "The server is starting or stopping.";
  if (status === 504) {
    return `The deadline expired${stage ? ` in stage ${stage}` : ""}. Raise the time limit under More.`;
  }
  return "";
}

/**
 * Copies a text to the clipboard, even without a secure origin or the permission.
 * @returns {Promise<boolean>} whether it was copied
 */
export async function copy(text) {
  try {
    if (navigator.clipboard && isSecureContext) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // Without the permission, fall back to execCommand.
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.setAttribute("aria-hidden", "true");
  field.className = "offscreen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

export function Copy({ text, label, children }) {
  const [done, setDone] = useState("");
  const click = async () => {
    setDone(await copy(typeof text === "function" ? text() : text) ? "copied" : "not copied");
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button type="button" class="small" aria-label=${done || label} onClick=${click}>${
    done || children
  }</button>`;
}

/** A name that narrow screens break after an underscore. */
export function breakable(name) {
  return name.split("_").map((part, i) => html`${i > 0 && html`_<wbr />`}${part}`);
}

/** A line that screen readers announce. */
export function Status({ children }) {
  return html`<p class="status" role="status">${children}</p>`;
}

function Page({ page, View }) {
  const [server, setServer] = useState(null);
  const [problem, setProblem] = useState(null);
  useLayoutEffect(() => {
    let stopped = false;
    let timer = 0;
    let pause = 1000;
    const ask = async () => {
      try {
        const found = await get("v1/server", { quiet: true });
        if (stopped) return;
        setServer(found);
        setProblem(null);
        pause = 1000;
      } catch (error) {
        if (stopped) return;
        if (error.status === 401) setServer(null);
        setProblem(error);
        if (error.status === 0) {
          timer = setTimeout(ask, pause);
          pause = Math.min(10000, pause * 2);
        }
      }
    };
    const lost = () => {
      clearTimeout(timer);
      ask();
    };
    ask();
    document.addEventListener("opwire-key", ask);
    document.addEventListener("opwire-lost", lost);
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("opwire-key", ask);
      document.removeEventListener("opwire-lost", lost);
    };
  }, []);
  const openKey = () => askKey(null);
  return html`<${Fragment}>
    <${Header} page=${page} server=${server} problem=${problem} openKey=${openKey} />
    ${
    problem?.status === 0 &&
    html`<p class="banner bad" role="alert">The server cannot be reached. Your input is kept; retrying.</p>`
  }
    <main id="main" tabindex="-1"><${View} server=${server} problem=${problem} /></main>
    <${Keys} /><${KeyDialog} />
  <//>`;
}

/** Renders a page into #page. */
export function start(page, View) {
  const place = /** @type {HTMLElement} */ (document.getElementById("page"));
  place.replaceChildren();
  render(h(Page, { page, View }), place);
}
