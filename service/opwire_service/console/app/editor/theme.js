/** Editor theme; its colors are the CSS variables of the page, which shadow roots inherit. */

import { EditorView, HighlightStyle, syntaxHighlighting, tags } from "../../vendor/codemirror.js";

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--back)", fontSize: "14px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--select)",
  },
  ".cm-activeLine": { backgroundColor: "var(--active)" },
  ".cm-gutters": {
    backgroundColor: "var(--raised)",
    color: "var(--quiet)",
    border: "none",
    borderRight: "1px solid var(--line)",
  },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--tint)", outline: "1px solid var(--accent)" },
  ".cm-tooltip": {
    backgroundColor: "var(--back)",
    color: "var(--text)",
    border: "1px solid var(--edge)",
    borderRadius: "6px",
    maxWidth: "36rem",
  },
  ".cm-tooltip-autocomplete > ul > li": { padding: "2px 8px", lineHeight: "1.5" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-completionMatchedText": { textDecoration: "underline" },
  ".cm-tooltip.cm-completionInfo": { padding: "4px 8px" },
  ".cm-explain": { padding: "4px 10px", lineHeight: "1.45" },
  ".cm-explain strong": { display: "block" },
  ".cm-lintRange": { backgroundImage: "none", padding: "0" },
  ".cm-lintRange-error": {
    textDecoration: "underline wavy var(--bad) 1.5px",
    textUnderlineOffset: "3px",
    backgroundColor: "var(--bad-tint)",
    backgroundImage: "none",
  },
  ".cm-lintRange-active": { backgroundColor: "var(--bad-tint)" },
  ".cm-lintPoint:after": { borderBottomColor: "var(--bad)" },
  ".cm-diagnostic": { padding: "4px 10px", marginLeft: "0" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-gutter-lint": { width: "1.3em" },
  ".cm-lint-marker": { content: "normal", width: "1em", height: "1em", textAlign: "center" },
  ".cm-lint-marker-error": { content: "normal", color: "var(--bad)" },
  ".cm-lint-marker-error:before": { content: "'●'" },
  "&.stale .cm-lintRange-error": { textDecorationColor: "var(--edge)", backgroundColor: "transparent" },
  "&.stale .cm-lint-marker-error": { color: "var(--edge)" },
});

const colors = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--code-name)" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: tags.invalid, color: "var(--text)" },
]);

export const theme = [look, syntaxHighlighting(colors)];
