// Shown to whoever has no link yet, or whose link is an old one.
import { useState } from "preact/hooks";
import { describe, enter, entry, logIn } from "../api/client.ts";

export function Login() {
  const [link, setLink] = useState("");
  const [problem, setProblem] = useState("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const token = /[#&]token=([^&\s]+)/.exec(link)?.[1] ?? link.trim();
    try {
      await logIn(decodeURIComponent(token));
      entry.value = "asking";
      await enter();
    } catch (error) {
      entry.value = "out";
      setProblem(describe(error));
    }
  };
  return (
    <main class="center login">
      <svg class="login-mark" viewBox="0 0 32 32" width="40" height="40" aria-hidden="true">
        <path d="M3 16h8M21 16h8" stroke="currentColor" stroke-width="3" stroke-linecap="round" />
        <circle cx="16" cy="16" r="5.4" fill="none" stroke="currentColor" stroke-width="3" />
      </svg>
      <h1>Open the link of your server</h1>
      <p>
        This page shows the runs of a machine, so it wants a token. <code>inspan serve</code> prints a link that has it:
      </p>
      <pre class="terminal">
        <span class="dim">$ </span>inspan serve{"\n"}
        <span class="dim">{`${location.origin}/#token=…`}</span>
      </pre>
      <form onSubmit={(event) => void submit(event)}>
        <label for="link">The link, or the token in it</label>
        <div class="joined">
          <input
            id="link"
            type="password"
            autocomplete="off"
            value={link}
            aria-invalid={Boolean(problem)}
            aria-describedby={problem ? "link-problem" : undefined}
            onInput={(event) => setLink(event.currentTarget.value)}
          />
          <button type="submit" class="button button-main" disabled={!link.trim()}>
            Open
          </button>
        </div>
        {problem ? (
          <p class="field-problem" id="link-problem" role="alert">
            {problem}
          </p>
        ) : null}
      </form>
      <p class="dim">A link holds until <code>inspan serve --new-token</code> makes another. Whoever has it may do what you may do here.</p>
    </main>
  );
}
