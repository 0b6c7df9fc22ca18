// The keyboard map, and the way out.
import { useLayoutEffect, useRef } from "preact/hooks";
import { leave } from "../app.tsx";
import { serverInfo } from "../api/client.ts";
import { IconButton } from "../parts/small.tsx";

const KEYS: readonly (readonly [string, readonly (readonly [string, string])[]])[] = [
  ["Everywhere", [["g r", "runs"], ["g c", "cost"], ["n", "start a run"], ["/", "search"], ["?", "this map"], ["Esc", "back"]]],
  ["Runs", [["j k", "move"], ["Enter", "open"], ["a", "approve"], ["d", "deny"], ["c", "choose, two to compare"]]],
  [
    "A run",
    [
      ["j k", "next and previous line"],
      ["Enter", "open or fold a line"],
      ["f", "follow, to the end"],
      ["g g", "to the beginning"],
      ["a d", "approve, deny"],
      ["1 2 3", "the tabs, from the left"],
      ["r", "replay; Space plays, ← → step"],
    ],
  ],
];

export function Help({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={onClose} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="help-body">
        <header>
          <h2 id="help-title">Keyboard</h2>
          <IconButton sign="close" label="Close" onClick={() => dialog.current?.close()} />
        </header>
        <div class="help-columns">
          {KEYS.map(([place, keys]) => (
            <section key={place}>
              <h3>{place}</h3>
              <dl>
                {keys.map(([key, what]) => (
                  <div key={key + what}>
                    <dt>
                      {key.split(" ").map((each) => (
                        <kbd key={each}>{each}</kbd>
                      ))}
                    </dt>
                    <dd>{what}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ))}
        </div>
        <footer>
          <span class="dim">inspan {serverInfo.value?.version}</span>
          <button type="button" class="button" onClick={() => void leave().finally(onClose)}>
            Log out of this browser
          </button>
        </footer>
      </div>
    </dialog>
  );
}
