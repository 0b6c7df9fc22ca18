// What the place that is shown adds to the title of the window.
import { useEffect } from "preact/hooks";
import { Cell } from "./cell.ts";

export const title = new Cell("");

export function useTitle(own: string): void {
  useEffect(() => {
    title.value = own;
    return () => {
      title.value = "";
    };
  }, [own]);
}
