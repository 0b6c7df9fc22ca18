// Where the page begins.
import { render } from "preact";
import { App } from "./app.tsx";
import { applyTheme } from "./settings.ts";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/runs.css";
import "./styles/run.css";
import "./styles/code.css";
import "./styles/places.css";

applyTheme();
const root = document.getElementById("app");
if (root) render(<App />, root);
