// What a person chose for this browser. Where nothing can be kept, it holds until the page is closed.
import { Cell } from "./cell.ts";

export type Theme = "auto" | "light" | "dark";

const NAME = "inspan.theme";
const FOLDERS = "inspan.folders";
const NOTIFY = "inspan.notify";

export const theme = new Cell<Theme>(readTheme());
export const notify = new Cell(read(NOTIFY) === "yes" && "Notification" in window && Notification.permission === "granted");

export function applyTheme(): void {
  const chosen = theme.value;
  if (chosen === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
}

export function setTheme(next: Theme): void {
  theme.value = next;
  write(NAME, next);
  applyTheme();
}

/** Asks the browser, which asks the person: only ever after a click. */
export async function toggleNotify(): Promise<void> {
  if (notify.value) {
    notify.value = false;
    write(NOTIFY, "no");
    return;
  }
  const allowed = (await Notification.requestPermission()) === "granted";
  notify.value = allowed;
  write(NOTIFY, allowed ? "yes" : "no");
}

export function recentFolders(): string[] {
  try {
    const kept: unknown = JSON.parse(read(FOLDERS) || "[]");
    return Array.isArray(kept) ? kept.filter((each): each is string => typeof each === "string") : [];
  } catch {
    return [];
  }
}

export function rememberFolder(folder: string): void {
  write(FOLDERS, JSON.stringify([folder, ...recentFolders().filter((each) => each !== folder)].slice(0, 8)));
}

function readTheme(): Theme {
  const kept = read(NAME);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export function read(name: string): string {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

export function write(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // A browser that keeps nothing.
  }
}
