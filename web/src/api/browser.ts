// The browser's own parts of a stream.
import type { StreamParts } from "./stream.ts";

export const browserParts: StreamParts = {
  open: (address) => new EventSource(address, { withCredentials: true }) as unknown as ReturnType<StreamParts["open"]>,
  later: (act, ms) => window.setTimeout(act, ms),
  never: (timer) => window.clearTimeout(timer),
};
