/** The editor: CodeMirror in a shadow root, whose constructed style sheets need no inline styles. */

import {
  autocompletion,
  bracketMatching,
  closeBrackets,
  closeBracketsKeymap,
  Compartment,
  completionKeymap,
  defaultKeymap,
  drawSelection,
  EditorState,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  history,
  historyKeymap,
  hoverTooltip,
  indentOnInput,
  indentUnit,
  json,
  keymap,
  lineNumbers,
  lintGutter,
  nextDiagnostic,
  Prec,
  previousDiagnostic,
  setDiagnostics,
} from "../../vendor/codemirror.js";
import { theme } from "./theme.js";

/**
 * When text is typed over a selection, Chromium preserves its look by an inline style, which the content security policy
 * forbids. Such input therefore bypasses the browser's own editing.
 */
const typingOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { from, to, empty } = view.state.selection.main;
    const text = event.data;
    if (event.inputType !== "insertText" || !text || empty || view.composing) return false;
    const insert = () =>
      view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
    const handlers = view.state.facet(EditorView.inputHandler);
    if (!handlers.some((handle) => handle(view, from, to, text, insert))) view.dispatch(insert());
    event.preventDefault();
    return true;
  },
});

/**
 * @param {HTMLElement} host
 * @param {{text: string, label: string, wraps: boolean, change: (text: string) => void, run: () => void,
 *   complete: (text: string, offset: number) => any, explain: (text: string, offset: number) => {from: number, to: number, lines: string[]} | null}} given
 */
export function createEditor(host, given) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const wrapping = new Compartment();
  const complete = (/** @type {any} */ context) => {
    const found = given.complete(context.state.doc.toString(), context.pos);
    if (!found || (!context.explicit && found.from === found.to)) return null;
    // The typed text starts with a quotation mark, unlike the labels, so it is matched here.
    const written = context.state.sliceDoc(found.from, context.pos).replace(/^"/, "").toLowerCase();
    const options = found.options.filter((/** @type {any} */ { label }) => label.toLowerCase().includes(written));
    return { from: found.from, to: found.to, options, filter: false };
  };
  const explain = hoverTooltip((view, pos) => {
    const found = given.explain(view.state.doc.toString(), pos);
    return found && { pos: found.from, end: found.to, create: () => ({ dom: explanation(found.lines) }) };
  });
  const keys = [
    {
      key: "Mod-Enter",
      run: () => {
        given.run();
        return true;
      },
    },
    { key: "F8", run: nextDiagnostic },
    { key: "Shift-F8", run: previousDiagnostic },
  ];
  const state = EditorState.create({
    doc: given.text,
    extensions: [
      Prec.high(keymap.of(keys)),
      lineNumbers(),
      highlightActiveLineGutter(),
      highlightActiveLine(),
      highlightSpecialChars(),
      history(),
      drawSelection(),
      indentOnInput(),
      indentUnit.of("  "),
      bracketMatching(),
      closeBrackets(),
      json(),
      lintGutter(),
      explain,
      autocompletion({ icons: false, override: [complete] }),
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
      wrapping.of(given.wraps ? EditorView.lineWrapping : []),
      EditorView.contentAttributes.of({ "aria-label": given.label, "aria-describedby": "said", tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) given.change(update.state.doc.toString());
      }),
      typingOverSelection,
      theme,
    ],
  });
  const view = new EditorView({ state, parent: root, root });
  // The description is inside the shadow root, because elements outside cannot be referenced from it.
  const said = document.createElement("p");
  said.id = "said";
  said.hidden = true;
  root.append(said);

  return {
    view,
    /** @param {string} text */
    write(text) {
      if (text !== view.state.doc.toString()) {
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      }
    },
    /** @param {import("./marks.js").Mark[]} marks @param {(mark: any) => void} fix */
    mark(marks, fix) {
      const length = view.state.doc.length;
      said.textContent = marks.map(({ line, message }) => `line ${line}: ${message}`).join("; ");
      view.dispatch(setDiagnostics(
        view.state,
        marks.map((mark) => ({
          from: Math.min(mark.from, length),
          to: Math.min(Math.max(mark.to, mark.from), length),
          severity: "error",
          source: mark.code,
          message: mark.message,
          actions: mark.fix ? [{ name: `Replace with ${mark.fix}`, apply: () => fix(mark) }] : [],
        })),
      ));
    },
    /** @param {boolean} stale */
    stale(stale) {
      view.dom.classList.toggle("stale", stale);
    },
    /** @param {number} from @param {number} to */
    select(from, to) {
      view.dispatch({
        selection: { anchor: from, head: Math.min(to, view.state.doc.length) },
        effects: EditorView.scrollIntoView(from, { y: "center" }),
      });
      view.focus();
    },
    /** @param {boolean} wraps */
    wrap(wraps) {
      view.dispatch({ effects: wrapping.reconfigure(wraps ? EditorView.lineWrapping : []) });
    },
    /** @param {number} from @param {number} to @param {string} text */
    replace(from, to, text) {
      view.dispatch({ changes: { from, to, insert: text } });
    },
    destroy() {
      view.destroy();
    },
  };
}

/** @param {string[]} lines */
function explanation(lines) {
  const dom = document.createElement("div");
  dom.className = "cm-explain";
  lines.forEach((line, i) => {
    const part = document.createElement(i ? "div" : "strong");
    part.textContent = line;
    dom.append(part);
  });
  return dom;
}
