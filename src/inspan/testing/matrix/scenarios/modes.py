"""What each mode keeps an agent from."""

import json

from ..cell import must, same
from ..ground import Ground
from ..scenario import scenario

_SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["colour", "count"],
    "additionalProperties": False,
}


@scenario("a review reads and cannot write")
def review(ground: Ground) -> None:
    kept = ground.work / "kept.txt"
    kept.write_text("original words\n")
    orders = [
        'run = "cat kept.txt"',
        'run = "echo no > by-shell.txt"',
        'write = {path = "by-tool.txt", content = "no"}',
        'edit = {path = "kept.txt", old = "original", new = "other"}',
        "run = \"python3 -c 'open(chr(110), chr(119))'\"",
    ]
    steps = "".join(f"[[call]]\n{order}\noptional = true\n" for order in orders)
    attached = ("--attach", str(kept)) if ground.driver.capabilities.exec == "no" else ()
    script = f'{steps}[[call]]\nexpect_anywhere = "original words"\nsay = "Reviewed."\n'
    prompt = "Review kept.txt" if attached else "Review"
    story = ground.run(script, "--mode", "review", *attached, prompt=prompt)
    story.is_done()
    same("texts", story.texts[-1:], ["Reviewed."])
    same("files", sorted(path.name for path in ground.work.iterdir()), ["kept.txt"])
    same("file", kept.read_text(), "original words\n")


@scenario("a completion has no tools")
def complete(ground: Ground) -> None:
    orders = ['run = "touch by-shell.txt"', 'write = {path = "by-tool.txt", content = "no"}']
    steps = "".join(f"[[call]]\n{order}\noptional = true\n" for order in orders)
    story = ground.run(f'{steps}[[call]]\nsay = "Forty-two."\n', "--mode", "complete")
    story.is_done()
    same("texts", story.texts[-1:], ["Forty-two."])
    same("files", [path.name for path in ground.work.iterdir()], [])
    same("tools that ran", [event["kind"] for event in story.of("tool_completed")], [])


@scenario("a completion that fits a schema")
def schema(ground: Ground) -> None:
    path = ground.root / "schema.json"
    path.write_text(json.dumps(_SCHEMA))
    wanted = {"colour": "red", "count": 3}
    script = '[[call]]\nanswer = {colour = "red", count = 3}\n'
    if ground.driver.capabilities.output_schema == "yes":
        script += '[[call]]\nsay = "Done."\nrepeat = "always"\n'
    story = ground.run(script, "--mode", "complete", "--schema", str(path))
    story.is_done()
    given = [event["text"] for event in story.of("answer_given")] or story.texts[-1:]
    must(given, "no answer was given")
    same("answer", json.loads(given[-1]), wanted)
