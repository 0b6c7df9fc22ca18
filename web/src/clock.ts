// One clock for everything that tells how long something takes: it ticks once a second, and not while nobody looks.
import { useEffect } from "preact/hooks";
import { Cell, useCell } from "./cell.ts";

const seconds = new Cell(Date.now() / 1000);
let watchers = 0;
let timer: number | null = null;

function tick(): void {
  seconds.value = Date.now() / 1000;
}

function arrange(): void {
  const wanted = watchers > 0 && !document.hidden;
  if (wanted && timer === null) {
    tick();
    timer = window.setInterval(tick, 1000);
  } else if (!wanted && timer !== null) {
    window.clearInterval(timer);
    timer = null;
  }
}

document.addEventListener("visibilitychange", arrange);

/** Seconds since 1970, now and every second from now on. */
export function useNow(): number {
  useEffect(() => {
    watchers += 1;
    arrange();
    return () => {
      watchers -= 1;
      arrange();
    };
  }, []);
  return useCell(seconds);
}
