// What a screen reader says by itself: changes of state, and questions at once.
import { Cell } from "./cell.ts";

export const politely = new Cell("");
export const atOnce = new Cell("");

export function announce(text: string, { urgent = false } = {}): void {
  const cell = urgent ? atOnce : politely;
  cell.value = "";
  // An empty moment between: the same words twice are said twice.
  window.setTimeout(() => (cell.value = text), 50);
}
