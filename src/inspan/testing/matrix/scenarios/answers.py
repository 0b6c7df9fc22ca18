"""What an agent says."""

from inspan.testing.matrix.cell import require, require_equal
from inspan.testing.matrix.cell_environment import CellEnvironment
from inspan.testing.matrix.scenario import scenario

# A line separator that is no end of a line, a bidirectional text, a combined sign, a pair of surrogates, a quote.
ODD = 'a\u2028b\u2029c שלום é 👩‍👩‍👧 \U0001f9ff "quoted" \\back'


@scenario("a plain answer")
def answer(cell_env: CellEnvironment) -> None:
    script = '[[call]]\nexpect_anywhere = "greet-the-walrus"\nsay = ["hello ", "there"]\n'
    story = cell_env.run(script, prompt="greet-the-walrus")
    story.require_completed()
    require_equal("texts", story.texts, ["hello there"])


@scenario("reasoning is reported")
def reasoning(cell_env: CellEnvironment) -> None:
    story = cell_env.run('[[call]]\nthink = "pondering deeply"\nsay = "decided"\n')
    story.require_completed()
    require_equal("texts", story.texts, ["decided"])
    thought = "".join(event["text"] for event in story.select_events("reasoning_said"))
    require("pondering deeply" in thought, f"the reasoning was reported as {thought!r}")


@scenario("unicode and U+2028, in text and in what a tool prints")
def unicode(cell_env: CellEnvironment) -> None:
    (cell_env.work / "odd.txt").write_text(ODD, encoding="utf-8")
    quoted = ODD.replace("\\", "\\\\").replace('"', '\\"')
    story = cell_env.run(f'[[call]]\nrun = "cat odd.txt"\noptional = true\n[[call]]\nsay = "{quoted}"\n')
    story.require_completed()
    require_equal("texts", story.texts[-1:], [ODD])
    outputs = [event["output"] for event in story.select_events("tool_completed")]
    require(
        not cell_env.has_tools or any(ODD in each for each in outputs),
        f"the tool's output came as {str(outputs)[:300]}",
    )
