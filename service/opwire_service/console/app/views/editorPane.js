/** The editor as a part of a page. */

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { createEditor } from "../editor/editor.js";

/** Keeps the editor in `handle.current`. */
export function EditorPane({ handle, text, revision, marks, stale, wraps, change, run, complete, explain, fix }) {
  const host = useRef(null);
  const latest = useRef({});
  latest.current = { change, run, complete, explain, fix };
  useEffect(() => {
    handle.current = createEditor(host.current, {
      text,
      label: "Operator as JSON",
      describedBy: "violations",
      wraps,
      change: (changed) => latest.current.change(changed),
      run: () => latest.current.run(),
      complete: (...given) => latest.current.complete(...given),
      explain: (...given) => latest.current.explain(...given),
    });
    return () => handle.current.destroy();
  }, []);
  // What is typed is newer than the text that comes back from the page.
  useEffect(() => handle.current.write(text), [revision]);
  useEffect(() => handle.current.mark(marks, (mark) => latest.current.fix(mark)), [marks]);
  useEffect(() => handle.current.stale(stale), [stale]);
  useEffect(() => handle.current.wrap(wraps), [wraps]);
  return html`<div class="editor" ref=${host} aria-describedby="violations"></div>`;
}
