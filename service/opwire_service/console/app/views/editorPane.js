/** The editor as a part of a page. */

import { html, useLayoutEffect, useRef } from "../../vendor/preact.js";
import { createEditor } from "../editor/editor.js";

/** Keeps the editor in `handle.current`, which is there as soon as the page is. */
export function EditorPane({ handle, text, revision, marks, stale, wraps, change, run, complete, explain, fix }) {
  const host = useRef(null);
  const latest = useRef({});
  latest.current = { change, run, complete, explain, fix };
  useLayoutEffect(() => {
    handle.current = createEditor(host.current, {
      text,
      label: "Operator as JSON",
      wraps,
      change: (changed) => latest.current.change(changed),
      run: () => latest.current.run(),
      complete: (...given) => latest.current.complete(...given),
      explain: (...given) => latest.current.explain(...given),
    });
    return () => handle.current.destroy();
  }, []);
  // What is typed is newer than the text that comes back from the page.
  useLayoutEffect(() => handle.current.write(text), [revision]);
  useLayoutEffect(() => handle.current.mark(marks, (mark) => latest.current.fix(mark)), [marks]);
  useLayoutEffect(() => handle.current.stale(stale), [stale]);
  useLayoutEffect(() => handle.current.wrap(wraps), [wraps]);
  return html`<div class="editor" ref=${host}></div>`;
}
