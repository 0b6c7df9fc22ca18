// The address of the page: links are followed without loading it anew.
import { Cell } from "./cell.ts";
import { formatRoute, parseRoute, type Route } from "./routes.ts";

export const route = new Cell<Route>(parseRoute(location.pathname, location.search));

export function go(to: Route | string, { replace = false } = {}): void {
  const address = typeof to === "string" ? to : formatRoute(to);
  if (address === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  read();
}

function read(): void {
  route.value = parseRoute(location.pathname, location.search);
}

window.addEventListener("popstate", read);

document.addEventListener("click", (event) => {
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const address = link?.getAttribute("href") ?? "";
  if (!plain || event.defaultPrevented || !address.startsWith("/") || address.startsWith("//") || link?.target) return;
  event.preventDefault();
  go(address);
});
