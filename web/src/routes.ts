// Which place of the page an address is, and back. Whatever a person chose that is worth a link is in the address.

export type RunTab = "timeline" | "diff" | "cost" | "graph";

export interface Filters {
  project: string;
  agent: string;
  state: string;
  search: string;
}

export type Route =
  | { place: "runs"; filters: Filters }
  | { place: "run"; run: string; tab: RunTab; at: number | null }
  | { place: "start"; from: string }
  | { place: "compare"; a: string; b: string }
  | { place: "cost" }
  | { place: "missing"; path: string };

const TABS: readonly RunTab[] = ["timeline", "diff", "cost", "graph"];
export const NO_FILTERS: Filters = { project: "", agent: "", state: "", search: "" };

export function parseRoute(path: string, query: string): Route {
  const given = new URLSearchParams(query);
  const [place = "", run = "", tab = ""] = path.split("/").filter(Boolean).map(decode);
  const get = (name: string): string => given.get(name) ?? "";
  switch (place) {
    case "":
      return {
        place: "runs",
        filters: { project: get("project"), agent: get("agent"), state: get("state"), search: get("search") },
      };
    case "runs": {
      if (!run) return parseRoute("/", query);
      const at = Number(get("at"));
      return {
        place: "run",
        run,
        tab: TABS.find((each) => each === tab) ?? "timeline",
        at: Number.isInteger(at) && at > 0 ? at : null,
      };
    }
    case "start":
      return { place: "start", from: get("from") };
    case "compare":
      return { place: "compare", a: get("a"), b: get("b") };
    case "cost":
      return { place: "cost" };
    default:
      return { place: "missing", path };
  }
}

export function formatRoute(route: Route): string {
  switch (route.place) {
    case "runs":
      return `/${query({ ...route.filters })}`;
    case "run": {
      const tab = route.tab === "timeline" ? "" : `/${route.tab}`;
      return `/runs/${encodeURIComponent(route.run)}${tab}${query({ at: route.at === null ? "" : String(route.at) })}`;
    }
    case "start":
      return `/start${query({ from: route.from })}`;
    case "compare":
      return `/compare${query({ a: route.a, b: route.b })}`;
    case "cost":
      return "/cost";
    case "missing":
      return route.path;
  }
}

export function runAddress(run: string, tab: RunTab = "timeline"): string {
  return formatRoute({ place: "run", run, tab, at: null });
}

function query(values: Record<string, string>): string {
  const given = Object.entries(values).filter(([, value]) => value);
  return given.length ? `?${new URLSearchParams(given).toString()}` : "";
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
