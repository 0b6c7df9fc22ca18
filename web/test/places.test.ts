import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut } from "../src/graph.ts";
import { Heights } from "../src/heights.ts";
import { formatRoute, parseRoute } from "../src/routes.ts";

test("rows are found by their place, guessed or measured", () => {
  const heights = new Heights(10);
  heights.resize(1000);
  assert.equal(heights.total, 10_000);
  assert.equal(heights.set(3, 25), 15);
  assert.equal(heights.set(3, 25), 0);
  assert.deepEqual([heights.offset(3), heights.offset(4), heights.total], [30, 55, 10_015]);
  assert.deepEqual([0, 29, 30, 54, 55, 10_014, 99_999, -5].map((place) => heights.indexAt(place)), [0, 2, 3, 3, 4, 999, 999, 0]);
});

test("rows that are added stand behind the measured ones, and rows that go are forgotten", () => {
  const heights = new Heights(10);
  for (let count = 1; count <= 50; count++) {
    heights.resize(count);
    heights.set(count - 1, count);
  }
  assert.equal(heights.total, 1275);
  heights.resize(20);
  assert.equal(heights.total, 210);
  heights.resize(21);
  assert.deepEqual([heights.total, heights.offset(20), heights.indexAt(215)], [220, 210, 20]);
  assert.equal(new Heights(10).indexAt(5), 0);
});

test("an address says what is shown, and back", () => {
  for (const address of ["/", "/?project=shop&state=failed", "/runs/k3f", "/runs/k3f/diff", "/runs/a%2Fb", "/runs/k3f?at=12", "/compare?a=1&b=2", "/cost", "/start?from=k3f"]) {
    const [path = "", query = ""] = address.split("?");
    assert.equal(formatRoute(parseRoute(path, query)), address);
  }
  assert.equal(parseRoute("/runs/%E0%A4%A", "").place, "run");
  assert.equal(parseRoute("/elsewhere", "").place, "missing");
  assert.deepEqual(parseRoute("/runs/x/nothing", "at=-1"), { place: "run", run: "x", tab: "timeline", at: null });
});

test("a node stands right of all that it needs, and a long line has places of its own", () => {
  const layout = layOut(["test", "lint", "note", "seen", "file"], { note: ["test"], seen: ["note"], file: ["seen", "lint"] });
  const column = Object.fromEntries(layout.nodes.map((node) => [node.name, node.column]));
  assert.deepEqual(column, { test: 0, lint: 0, note: 1, seen: 2, file: 3 });
  assert.deepEqual(layout.edges.find((edge) => edge.from === "lint")?.via, [{ column: 1, row: 1 }, { column: 2, row: 1 }]);
  assert.deepEqual([layout.columns, layout.rows], [4, 2]);
});

test("a circle, an unknown need and no node at all are drawn too", () => {
  assert.equal(layOut(["a", "b"], { a: ["b"], b: ["a"] }).nodes.length, 2);
  assert.deepEqual(layOut(["a"], { a: ["gone", "a"] }).edges, []);
  assert.deepEqual(layOut([], {}), { nodes: [], edges: [], columns: 0, rows: 0 });
});
