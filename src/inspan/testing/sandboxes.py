"""The check that every sandbox passes, whoever has written it: what `OpenSandbox` promises, tried from outside."""

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from inspan.contracts.sandbox import OpenSandbox
from inspan.errors import InspanError

OpenOne = Callable[[], AbstractAsyncContextManager[OpenSandbox]]

_TREE = "(while :; do echo x >> {file}; sleep 0.05; done) & {then}"
# Long enough for the loop above to write again if it still lives.
_QUIET = "sleep 1"


async def check_sandbox(open_one: OpenOne, *, outside: str, has_own_folder: bool = False) -> None:
    """Opens sandboxes and raises `AssertionError` with the first promise that is not kept.

    They need `sh` and its usual companions inside, and a folder that is empty but for what the check writes. `outside`
    is a folder beside it. One that `has_own_folder` takes it away when it is torn down; of any other, the files stay.
    """
    async with open_one() as box:
        await _check_exec(box)
        await _check_ending(box)
        await _check_upload(box, outside)
        await _check_snapshots(box)
    await _check_teardown(open_one, has_own_folder=has_own_folder)


async def _check_exec(box: OpenSandbox) -> None:
    assert os.path.isdir(box.work_dir), f"its work_dir {box.work_dir} is no folder"
    done = await box.exec(
        ["sh", "-c", 'printf %s "$GIVEN $(cat) $(pwd)"; printf %s oh >&2; exit 3'], env={"GIVEN": "a b"}, stdin=b"in"
    )
    assert done.stdout == f"a b in {box.work_dir}".encode(), f"stdout was {done.stdout!r}"
    assert done.stderr == b"oh", f"stderr was {done.stderr!r}"
    assert (done.exit_code, done.timed_out) == (3, False), f"it left with {done.exit_code}"
    assert 0 < done.duration_s < 600, f"it took {done.duration_s} s"
    words = await box.exec(["printf", "%s|", "a b", "", "*", "$HOME"])
    assert words.stdout == b"a b||*|$HOME|", f"its words became {words!r}"
    # Where PATH has a folder that the caller may not search, it is 126: nobody knows whether the program is in there.
    missing = await box.exec(["no-such-program"], env={"PATH": os.defpath})
    assert missing.exit_code == 127, f"a program that is not there gave {missing.exit_code}"


async def _check_ending(box: OpenSandbox) -> None:
    """Nothing goes on: neither behind a command that has ended, nor behind one that took too long."""
    for name, then, timeout_s in (("left", "sleep 0.2", 600.0), ("late", "sleep 600", 2.0)):
        done = await box.exec(["sh", "-c", _TREE.format(file=name, then=then)], timeout_s=timeout_s)
        assert done.timed_out == (name == "late"), f"timed_out was {done.timed_out} for {then}"
        path = os.path.join(box.work_dir, name)
        before = os.path.getsize(path)
        await box.exec(["sh", "-c", _QUIET])
        assert os.path.getsize(path) == before, f"a process of `{then}` was still there afterwards"


async def _check_upload(box: OpenSandbox, outside: str) -> None:
    await box.upload({"deep/er/text": "grüße", "bytes": b"\0\xff"})
    shown = await box.exec(["cat", "deep/er/text", "bytes"])
    assert shown.stdout == "grüße".encode() + b"\0\xff", f"uploaded files were {shown.stdout!r}"
    await box.exec(["ln", "-s", outside, "link"])
    for path in ("../escaped", "link/escaped", os.path.join(outside, "escaped")):
        try:
            await box.upload({path: "x"})
        except InspanError:
            pass
        else:
            raise AssertionError(f"it took {path}, which lies outside")
        assert not os.path.exists(os.path.join(outside, "escaped")), f"{path} was written"


async def _check_snapshots(box: OpenSandbox) -> None:
    await box.upload({"kept": "first", "folder/gone": "there"})
    first = await box.snapshot()
    await box.exec(["sh", "-c", "echo second > kept; rm -r folder; mkdir -p new; echo new > new/file"])
    second = await box.snapshot()
    await box.restore(first)
    assert await _show(box) == (b"first", True, False), "the first snapshot was not put back"
    await box.restore(second)
    assert await _show(box) == (b"second\n", False, True), "the second snapshot was not put back"
    try:
        await box.restore("no such snapshot")
    except InspanError:
        return
    raise AssertionError("it restored a snapshot that was never taken")


async def _show(box: OpenSandbox) -> tuple[bytes, bool, bool]:
    kept = await box.exec(["cat", "kept"])
    there = [os.path.exists(os.path.join(box.work_dir, path)) for path in ("folder/gone", "new/file")]
    return kept.stdout, there[0], there[1]


async def _check_teardown(open_one: OpenOne, *, has_own_folder: bool) -> None:
    async with open_one() as box:
        await box.upload({"stays": "here"})
        await box.teardown()
        await box.teardown()
        try:
            await box.exec(["true"])
        except InspanError:
            pass
        else:
            raise AssertionError("it ran a command after it was torn down")
        if has_own_folder:
            assert not os.path.lexists(box.work_dir), "its own folder was there after it was torn down"
        else:
            assert os.path.exists(os.path.join(box.work_dir, "stays")), "its files were gone after it was torn down"
