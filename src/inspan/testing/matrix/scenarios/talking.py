"""What an agent says."""

from ..cell import must, same
from ..ground import Ground
from ..scenario import scenario

# A line separator that is no end of a line, a bidirectional text, a combined sign, a pair of surrogates, a quote.
ODD = 'a\u2028b\u2029c שלום é 👩‍👩‍👧 \U0001f9ff "quoted" \\back'


@scenario("a plain answer")
def answer(ground: Ground) -> None:
    script = '[[call]]\nexpect_anywhere = "greet-the-walrus"\nsay = ["hello ", "there"]\n'
    story = ground.run(script, prompt="greet-the-walrus")
    story.is_done()
    same("texts", story.texts, ["hello there"])


@scenario("reasoning is told")
def reasoning(ground: Ground) -> None:
    story = ground.run('[[call]]\nthink = "pondering deeply"\nsay = "decided"\n')
    story.is_done()
    same("texts", story.texts, ["decided"])
    thought = "".join(event["text"] for event in story.of("reasoning_said"))
    must("pondering deeply" in thought, f"the reasoning was told as {thought!r}")


@scenario("unicode and U+2028, in text and in what a tool prints")
def unicode(ground: Ground) -> None:
    (ground.work / "odd.txt").write_text(ODD, encoding="utf-8")
    quoted = ODD.replace("\\", "\\\\").replace('"', '\\"')
    story = ground.run(f'[[call]]\nrun = "cat odd.txt"\noptional = true\n[[call]]\nsay = "{quoted}"\n')
    story.is_done()
    same("texts", story.texts[-1:], [ODD])
    outputs = [event["output"] for event in story.of("tool_completed")]
    must(
        not ground.has_tools or any(ODD in each for each in outputs), f"the tool's output came as {str(outputs)[:300]}"
    )
