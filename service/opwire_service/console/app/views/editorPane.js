/** The editor as a component. */

import { html, useLayoutEffect, useRef } from "../../vendor/preact.js";
import { createEditor } from "../editor/editor.js";

/** Stores the editor in `handle.current`, which is available once the page is rendered. */
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
  // The editor's own text is newer than the one that the page passes back.
  useLayoutEffect(() => handle.current.write(text), [revision]);
  useLayoutEffect(() => handle.current.mark(marks, (mark) => latest.current.fix(mark)), [marks]);
  useLayoutEffect(() => handle.current.stale(stale), [stale]);
  useLayoutEffect(() => handle.current.wrap(wraps), [wraps]);
  return html`<div class="editor" ref=${host}></div>`;
}
