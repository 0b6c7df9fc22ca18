// Places for the nodes of a blueprint: what needs nothing stands left, everything else right of all that it needs. A line
// that passes a column gets a place of its own there, so that it runs beside the nodes and not behind them.

export interface Place {
  column: number;
  row: number;
}

export interface PlacedNode extends Place {
  name: string;
}

export interface Edge {
  from: string;
  to: string;
  /** Where it passes, from left to right. */
  via: Place[];
}

export interface Layout {
  nodes: PlacedNode[];
  edges: Edge[];
  columns: number;
  rows: number;
}

export type Needs = Readonly<Record<string, readonly string[]>>;

export function layOut(order: readonly string[], needs: Needs): Layout {
  const columns = findColumns(order, needs);
  const layers: string[][] = [];
  for (const name of order) (layers[columns.get(name) ?? 0] ??= []).push(name);
  // What stands before each place, be it a node or a passing line.
  const before = new Map<string, string[]>(order.map((name) => [name, []]));
  const edges = order.flatMap((to) =>
    (needs[to] ?? []).flatMap((from) => {
      const [start, end] = [columns.get(from), columns.get(to)];
      return start === undefined || end === undefined || from === to ? [] : [{ from, to, start, end }];
    }),
  );
  const passing = edges.map(({ from, to, start, end }) => {
    let last = from;
    const names: string[] = [];
    for (let column = start + 1; column < end; column++) {
      const name = `${from}\n${to}\n${column}`;
      (layers[column] ??= []).push(name);
      before.set(name, [last]);
      names.push((last = name));
    }
    before.get(to)?.push(last);
    return names;
  });
  const rows = new Map<string, number>();
  for (const layer of layers) placeLayer(layer, before, rows);
  const place = (name: string, column: number): Place => ({ column, row: rows.get(name) ?? 0 });
  return {
    nodes: order.map((name) => ({ name, ...place(name, columns.get(name) ?? 0) })),
    edges: edges.map(({ from, to, start }, index) => ({
      from,
      to,
      via: (passing[index] ?? []).map((name, step) => place(name, start + 1 + step)),
    })),
    columns: layers.length,
    rows: Math.max(0, ...layers.map((layer) => layer.length)),
  };
}

function findColumns(order: readonly string[], needs: Needs): Map<string, number> {
  const columns = new Map<string, number>();
  const known = new Set(order);
  const find = (name: string, seen: ReadonlySet<string>): number => {
    const found = columns.get(name);
    if (found !== undefined) return found;
    if (seen.has(name)) return -1; // A circle cannot be run; drawn it can be.
    const within = new Set([...seen, name]);
    const column = Math.max(-1, ...(needs[name] ?? []).filter((each) => known.has(each)).map((each) => find(each, within))) + 1;
    columns.set(name, column);
    return column;
  };
  for (const name of order) find(name, new Set());
  return columns;
}

/** Orders a column by the middle of what stands before its places, so that lines cross less. */
function placeLayer(layer: readonly string[], before: ReadonlyMap<string, readonly string[]>, rows: Map<string, number>): void {
  const middle = (name: string): number => {
    const places = (before.get(name) ?? []).flatMap((each) => rows.get(each) ?? []);
    return places.length ? places.reduce((sum, each) => sum + each, 0) / places.length : Number.POSITIVE_INFINITY;
  };
  const keyed = layer.map((name, index) => ({ name, index, key: middle(name) }));
  keyed.sort((a, b) => (a.key === b.key ? a.index - b.index : a.key - b.key));
  keyed.forEach(({ name }, row) => rows.set(name, row));
}
