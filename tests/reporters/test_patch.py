"""What an edit changes, as its tool's input says."""

from typing import Any

import pytest

from inspan.reporters.patch import Patch, find_patch


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"file_path": "a", "old_string": "x\ny\nz", "new_string": "x\nq\nz"}, ("-y", "+q")),
        ({"path": "a", "oldText": "x\n", "newText": ""}, ("-x",)),
        ({"path": "a", "old": "", "new": "x\ny"}, ("+x", "+y")),
        ({"filePath": "a", "edits": [{"oldText": "x", "newText": "y"}, {"old_string": "1", "new_string": "2"}]},
         ("-x", "+y", "-1", "+2")),
        ({"path": "a", "content": "x\ny\n"}, ("+x", "+y")),
        ("*** Begin Patch\n*** Update File: a\n@@\n keep\n-x\n+y\n*** End Patch", ("-x", "+y")),
        ({"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"}, ("-x", "+y")),
    ],
)  # fmt: skip
def test_a_change_is_found_in_the_words_of_each_agent(given: Any, lines: tuple[str, ...]) -> None:
    patch = find_patch(given)
    assert patch and (patch.path, patch.lines) == ("a", lines)
    assert (patch.added, patch.removed) == (
        sum(line[0] == "+" for line in lines),
        sum(line[0] == "-" for line in lines),
    )


@pytest.mark.parametrize("given", [None, "ls", ["/a"], {"command": "ls"}, {"path": "a"}, {"old": "x", "new": "y"}, 7])
def test_other_input_is_no_change(given: Any) -> None:
    assert find_patch(given) is None


def test_a_file_that_is_written_whole_is_told_from_an_edit() -> None:
    assert find_patch({"path": "a", "content": "x"}) == Patch("a", ("+x",), writes=True)
