// The frame around every place: who is let in, the bar at the top, the keys that work everywhere, the title.
import { useEffect, useRef, useState } from "preact/hooks";
import { atOnce, politely } from "./announce.ts";
import { describe, enter, entry, logOut, reachable, serverInfo } from "./api/client.ts";
import { useCell } from "./cell.ts";
import { isWorking } from "./folds/state_words.ts";
import { useKeys } from "./keys.ts";
import { go, route } from "./navigate.ts";
import { IconButton, Trouble } from "./parts/small.tsx";
import { SignIcon } from "./parts/icons.tsx";
import { NO_FILTERS } from "./routes.ts";
import { connection, countNeeds, followRuns, questions, runList } from "./runs_store.ts";
import { notify, setTheme, type Theme, theme, toggleNotify } from "./settings.ts";
import { title } from "./title.ts";
import { ComparePage } from "./views/compare.tsx";
import { CostPage } from "./views/cost.tsx";
import { Help } from "./views/help.tsx";
import { Login } from "./views/login.tsx";
import { RunPage } from "./views/run.tsx";
import { RunsPage } from "./views/runs.tsx";
import { StartPage } from "./views/start.tsx";

export function App() {
  const state = useCell(entry);
  const [problem, setProblem] = useState<unknown>(null);
  const begin = (): void => {
    setProblem(null);
    enter().catch(setProblem);
  };
  useEffect(begin, []);
  useEffect(() => {
    // The same link again, in a tab that is open already.
    const again = (): void => {
      if (location.hash.startsWith("#token=")) begin();
    };
    window.addEventListener("hashchange", again);
    return () => window.removeEventListener("hashchange", again);
  }, []);
  if (problem) {
    return (
      <main class="center">
        <h1>inspan</h1>
        <Trouble error={describe(problem)} again={begin} />
      </main>
    );
  }
  if (state === "out") return <Login />;
  if (state === "asking") {
    // Said only where it takes long, as after a wrong token, which the server slows down.
    return (
      <main class="center" aria-busy="true">
        <p class="dim late">Asking the server…</p>
      </main>
    );
  }
  return <Frame />;
}

let following = false;

function Frame() {
  const at = useCell(route);
  const [help, setHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const before = useRef("");
  useEffect(() => {
    if (!following) followRuns();
    following = true;
  }, []);
  useTitle();
  const place = at.place === "run" ? `run ${at.run}` : at.place;
  useEffect(() => {
    // Whoever listens, or tabs, begins with the heading of the new place.
    if (before.current && before.current !== place) main.current?.querySelector("h1")?.focus();
    before.current = place;
  }, [place]);
  useKeys({
    "?": () => setHelp(true),
    "g r": () => go("/"),
    "g c": () => go("/cost"),
    n: () => go("/start"),
    "/": () => {
      const field = document.querySelector<HTMLInputElement>("input[type=search]");
      if (field) field.focus();
      else go({ place: "runs", filters: NO_FILTERS });
    },
    Escape: () => {
      if (document.activeElement instanceof HTMLElement && document.activeElement !== document.body) document.activeElement.blur();
      else if (at.place !== "runs") go("/");
    },
  });
  return (
    <div class={`app place-${at.place}`}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Bar onHelp={() => setHelp(true)} />
      <main id="main" ref={main} tabIndex={-1}>
        {at.place === "runs" ? <RunsPage filters={at.filters} /> : null}
        {at.place === "run" ? <RunPage key={at.run} run={at.run} tab={at.tab} at={at.at} /> : null}
        {at.place === "start" ? <StartPage key={at.from} from={at.from} /> : null}
        {at.place === "cost" ? <CostPage /> : null}
        {at.place === "compare" ? <ComparePage key={`${at.a} ${at.b}`} a={at.a} b={at.b} /> : null}
        {at.place === "missing" ? (
          <div class="center">
            <h1 tabIndex={-1}>There is nothing here</h1>
            <p>
              <code>{at.path}</code> is no place of this page. <a href="/">All runs</a>
            </p>
          </div>
        ) : null}
      </main>
      {help ? <Help onClose={() => setHelp(false)} /> : null}
      <Spoken />
    </div>
  );
}

function useTitle(): void {
  const list = useCell(runList);
  useCell(questions);
  const own = useCell(title);
  useEffect(() => {
    const needs = countNeeds();
    const working = list.runs.filter(isWorking).length;
    const parts = [needs ? `▲ ${needs} need${needs === 1 ? "s" : ""} you` : "", own, !own && working ? `● ${working} working` : "", "inspan"];
    document.title = parts.filter(Boolean).join(" · ");
  });
}

const THEMES: readonly Theme[] = ["auto", "light", "dark"];
const THEME_SIGNS = { auto: "auto", light: "sun", dark: "moon" } as const;

function Bar({ onHelp }: { onHelp: () => void }) {
  const at = useCell(route);
  const chosen = useCell(theme);
  const notifies = useCell(notify);
  const info = useCell(serverInfo);
  useCell(questions);
  useCell(runList);
  const needs = countNeeds();
  const inRuns = at.place === "runs" || at.place === "run" || at.place === "compare";
  const next = THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length] ?? "auto";
  return (
    <header class="bar">
      <a class="wordmark" href="/" aria-label="inspan, all runs">
        <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
          <path d="M3 16h8M21 16h8" stroke="currentColor" stroke-width="3.4" stroke-linecap="round" />
          <circle cx="16" cy="16" r="5.4" fill="none" stroke="currentColor" stroke-width="3.4" />
        </svg>
        <span>inspan</span>
      </a>
      <nav aria-label="Places">
        <a href="/" aria-current={inRuns ? "page" : undefined}>
          Runs{needs ? <span class="badge" title={`${needs} need you`}>{needs}<span class="unseen"> need you</span></span> : null}
        </a>
        <a href="/cost" aria-current={at.place === "cost" ? "page" : undefined}>
          Cost
        </a>
      </nav>
      <Link />
      <div class="bar-end">
        {info?.read_only ? <span class="tag">read-only</span> : (
          <a class="button button-new" href="/start" aria-current={at.place === "start" ? "page" : undefined}>
            <SignIcon sign="plus" size={14} /> <span>New run</span> <kbd>n</kbd>
          </a>
        )}
        {"Notification" in window ? (
          <IconButton
            sign={notifies ? "bell" : "bellOff"}
            label={notifies ? "Notifications are on: when a run needs you, or is done" : "Notify me when a run needs me, or is done"}
            pressed={notifies}
            onClick={() => void toggleNotify()}
          />
        ) : null}
        <IconButton sign={THEME_SIGNS[chosen]} label={`Colours: ${chosen === "auto" ? "as the system" : chosen}. Change to ${next === "auto" ? "as the system" : next}`} onClick={() => setTheme(next)} />
        <IconButton sign="keys" label="Keyboard, and leaving" onClick={onHelp} />
      </div>
    </header>
  );
}

/** Says that the server is away, and nothing while it is not. */
function Link() {
  const state = useCell(connection);
  const answers = useCell(reachable);
  const [shown, setShown] = useState(false);
  const lost = state === "lost" || !answers;
  useEffect(() => {
    // A blink of an eye is nobody's business.
    if (!lost) {
      setShown(false);
      return;
    }
    const timer = window.setTimeout(() => setShown(true), 800);
    return () => window.clearTimeout(timer);
  }, [lost]);
  return (
    <div class="link" role="status">
      {shown ? <span class="lost">connection lost, trying again</span> : null}
    </div>
  );
}

function Spoken() {
  const polite = useCell(politely);
  const urgent = useCell(atOnce);
  return (
    <>
      <div class="unseen" aria-live="polite">
        {polite}
      </div>
      <div class="unseen" aria-live="assertive">
        {urgent}
      </div>
    </>
  );
}

export async function leave(): Promise<void> {
  await logOut();
  entry.value = "out";
}
