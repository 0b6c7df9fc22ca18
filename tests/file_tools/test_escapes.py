"""Every way out of ROOT, tried for real: what lies outside is neither read nor written, and nothing hangs."""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from inspan.errors import BadInput, FileRefused, InspanError
from inspan.file_tools import own_program
from inspan.file_tools.operations import OPERATIONS
from inspan.file_tools.root import Root
from tests.cli_env import CliEnv
from tests.conftest import skip

from .conftest import SECRET, Ground

Lay = Callable[[Ground], str]
_RACES = 2000
_PAUSES = (*(0.0,) * 1000, 0.02)  # Storms, and calms long enough for a call; odd, so that both states have theirs.
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE.


def _link(target: str, name: str = "way") -> Lay:
    def lay(ground: Ground) -> str:
        (ground.inside / name).symlink_to(target.format(outside=ground.outside, inside=ground.inside))
        return name

    return lay


def _link_below(target: str) -> Lay:
    def lay(ground: Ground) -> str:
        return f"{_link(target)(ground)}/secret.txt"

    return lay


def _link_in_folder(ground: Ground) -> str:
    (ground.inside / "sub" / "way").symlink_to(ground.secret)
    return "sub/way"


def _nested(ground: Ground) -> str:
    (ground.inside / "sub" / "up").symlink_to("..")
    (ground.inside / "sub" / "out").symlink_to("up/../outside")
    return "sub/out/secret.txt"


def _chain(ground: Ground) -> str:
    for number in range(30):
        (ground.inside / f"link{number}").symlink_to(f"link{number + 1}")
    (ground.inside / "link30").symlink_to("../outside/secret.txt")
    return "link0"


def _loop(ground: Ground) -> str:
    (ground.inside / "a").symlink_to("b")
    (ground.inside / "b").symlink_to("a")
    return "a"


def _whole_path_inside(ground: Ground) -> str:
    """A link with a whole path is not followed even where it leads inside: the kernel does not look where to."""
    (ground.inside / "whole").symlink_to(ground.inside / "kept.txt")
    return "whole"


def _path(path: str) -> Lay:
    return lambda ground: path.format(outside=ground.outside, inside=ground.inside)


WAYS_OUT: dict[str, Lay] = {
    "link to a whole path": _link("{outside}/secret.txt"),
    "link upwards": _link("../outside/secret.txt"),
    "link in a folder to a whole path": _link_in_folder,
    "link to a folder": _link_below("{outside}"),
    "link to a folder upwards": _link_below("../outside"),
    "link by way of ROOT": _link_below("sub/../../outside"),
    "links in links": _nested,
    "a chain of links": _chain,
    "links in a circle": _loop,
    "link to a whole path inside": _whole_path_inside,
    "link to /proc/self/root": _link("/proc/self/root{outside}/secret.txt"),
    "link to the top": _link("/"),
    "dots": _path("../outside/secret.txt"),
    "dots behind a folder": _path("sub/../../outside/secret.txt"),
    "many dots": _path("../" * 40 + "{outside}/secret.txt"),
    "dots and slashes": _path("./sub//..//.././outside/secret.txt"),
    "a whole path": _path("{outside}/secret.txt"),
    "a whole path that begins like ROOT": _path("{inside}x/../outside/secret.txt"),
    "a whole path through ROOT": _path("{inside}/../outside/secret.txt"),
    "ROOT's parent": _path(".."),
    "/proc": _path("/proc/self/environ"),
    "a NUL": _path("kept.txt\0../outside/secret.txt"),
    "a name that is too long": _path("x" * 5000),
    "a path that is too long": _path("x/" * 3000 + "y"),
    "nothing": _path(""),
}
GIVEN: dict[str, dict[str, object]] = {
    "read": {},
    "write": {"content": "x"},
    "edit": {"old": "words", "new": "x"},
    "list": {},
    "search": {"pattern": "."},
}


@pytest.mark.parametrize("operation", GIVEN)
@pytest.mark.parametrize("way", WAYS_OUT)
def test_no_path_leads_out(root: Root, ground: Ground, way: str, operation: str) -> None:
    path = WAYS_OUT[way](ground)
    before = _list_all(ground.inside)
    with pytest.raises(FileRefused if way not in ("a NUL", "nothing") else BadInput) as caught:
        OPERATIONS[operation].call(root, {"path": path, **GIVEN[operation]})
    assert "outside\n" not in str(caught.value)
    ground.check_untouched()
    assert _list_all(ground.inside) == before


@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("way", ["link to a whole path", "links in links", "dots", "a whole path", "/proc"])
def test_the_command_refuses_the_same_for_every_user(request: pytest.FixtureRequest, way: str, user: str) -> None:
    cli_env: CliEnv = request.getfixturevalue("cli_env" if user == "root" else "user_cli_env")
    ground = Ground(cli_env.work, cli_env.root / "outside")
    ground.outside.mkdir()
    ground.secret.write_text(SECRET)
    (ground.inside / "sub").mkdir()
    path = WAYS_OUT[way](ground)
    for more in (("read", path), ("write", path, "--content", "x"), ("edit", path, "--old", "words", "--new", "x")):
        done = cli_env.inspan("file-tools", str(ground.inside), *more)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert done.stderr.startswith("inspan: path ")
        assert "Traceback" not in done.stderr
    ground.check_untouched()


def test_links_that_stay_inside_are_followed(root: Root, ground: Ground) -> None:
    (ground.inside / "near").symlink_to("kept.txt")
    (ground.inside / "sub" / "back").symlink_to("../kept.txt")
    (ground.inside / "folder").symlink_to("sub")
    for path in ("near", "sub/back", "folder/back", "folder/../near", str(ground.inside / "near")):
        assert OPERATIONS["read"].call(root, {"path": path})["text"] == "one\ntwo\nthree\n"
    OPERATIONS["write"].call(root, {"path": "folder/back", "content": "new\n"})
    assert (ground.inside / "kept.txt").read_text() == "new\n"
    assert (ground.inside / "sub" / "back").is_symlink()
    OPERATIONS["edit"].call(root, {"path": "near", "old": "new", "new": "newer"})
    assert (ground.inside / "kept.txt").read_text() == "newer\n"


def test_a_search_and_a_list_follow_no_link(root: Root, ground: Ground) -> None:
    (ground.inside / "out").symlink_to(ground.outside)
    (ground.inside / "file").symlink_to(ground.secret)
    (ground.inside / "sub" / "round").symlink_to("..")
    found = OPERATIONS["search"].call(root, {"pattern": "words|two|deep"})
    assert [match["path"] for match in found["matches"]] == ["kept.txt", "sub/deep.txt"]
    listed = OPERATIONS["list"].call(root, {"recursive": True})
    assert [entry["path"] for entry in listed["entries"]] == [
        "file",
        "kept.txt",
        "out",
        "sub",
        "sub/deep.txt",
        "sub/round",
    ]


def test_a_file_with_another_name_is_not_read_unless_that_was_granted(root: Root, ground: Ground) -> None:
    os.link(ground.secret, ground.inside / "hard.txt")
    for operation in ("read", "edit", "search"):
        with pytest.raises(FileRefused) as caught:
            OPERATIONS[operation].call(root, {"path": "hard.txt", **GIVEN[operation]})
        assert "2 names (hard links)" in caught.value.message
    found = OPERATIONS["search"].call(root, {"pattern": "words"})
    assert (found["matches"], found["notes"]) == (
        [],
        ["Not searched, too large or with several names: hard.txt."],
    )
    root.hard_links = True
    assert OPERATIONS["read"].call(root, {"path": "hard.txt"})["text"] == SECRET


def test_a_write_leaves_the_other_name_of_a_file_alone(root: Root, ground: Ground) -> None:
    os.link(ground.secret, ground.inside / "hard.txt")
    OPERATIONS["write"].call(root, {"path": "hard.txt", "content": "mine\n"})
    assert (ground.inside / "hard.txt").read_text() == "mine\n"
    ground.check_untouched()


def _lay_fifo(path: Path) -> None:
    os.mkfifo(path)


def _lay_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # The path of a socket is short.
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _lay_device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero: reading it never ends.
    except PermissionError:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("operation", ["read", "write", "edit"])
@pytest.mark.parametrize("lay", [_lay_fifo, _lay_socket, _lay_device])
def test_what_is_no_file_is_refused_and_nothing_waits(
    root: Root, ground: Ground, lay: Callable[[Path], None], operation: str
) -> None:
    lay(ground.inside / "odd")
    with pytest.raises(FileRefused):
        OPERATIONS[operation].call(root, {"path": "odd", **GIVEN[operation]})
    assert not (ground.inside / "odd").is_file()
    assert OPERATIONS["search"].call(root, {"pattern": "deep"})["matches"] != []


@pytest.mark.parametrize("portable", ["", "1"])
def test_another_file_system_below_is_not_entered(ground: Ground, portable: str) -> None:
    alone = ["unshare", "--mount", "--pid", "--fork", *(["--map-root-user"] if os.geteuid() else [])]
    if subprocess.run([*alone, "true"], check=False).returncode:
        skip("no-namespaces")
    (ground.inside / "proc").mkdir()
    (ground.inside / "disk").mkdir()
    command = [sys.executable, "-m", "inspan", "file-tools", str(ground.inside)]
    lines = [
        f"mount -t proc none {ground.inside}/proc && mount -t tmpfs none {ground.inside}/disk || exit 99",
        f"echo words > {ground.inside}/disk/file",
        *(
            f"{' '.join(command)} {more} && exit 98"
            for more in (
                "read proc/self/environ",
                f"read proc/self/root{ground.secret}",
                "read proc/self/cwd/kept.txt",
                "list proc",
                "read disk/file",
                "write disk/new --content x",
            )
        ),
        f"{' '.join(command)} search words",
    ]
    done = subprocess.run(
        [*alone, "sh", "-c", "\n".join(lines)],
        env={**os.environ, "INSPAN_PORTABLE": portable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "no match\n"), done.stderr
    assert done.stderr.count("onto another mounted file system") == 6


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/", "it holds the whole machine."),
        ("/../", "it holds the whole machine."),
        ("/proc/self/root", "it holds the whole machine."),
        ("/proc", "its files are the kernel's own."),
        ("/sys/kernel", "its files are the kernel's own."),
        ("{inside}/none", "no such folder."),
        ("{inside}/kept.txt", "it is not a folder."),
        ("inside", "it is not a whole path."),
        (".", "it is not a whole path."),
        ("", "it is not a whole path."),
        ("{inside}/top", "it holds the whole machine."),
    ],
)
def test_a_root_that_is_none_is_refused(ground: Ground, path: str, problem: str) -> None:
    (ground.inside / "top").symlink_to("/")
    with pytest.raises(BadInput) as caught:
        Root(path.format(inside=ground.inside))
    assert caught.value.message.endswith(f": {problem}")
    assert caught.value.next_step


def test_a_root_may_be_named_by_a_link(ground: Ground) -> None:
    link = ground.inside.parent / "name"
    link.symlink_to(ground.inside)
    root = Root(str(link))
    try:
        assert OPERATIONS["read"].call(root, {"path": str(link / "kept.txt")})["lines"] == 3
    finally:
        root.close()


def test_the_program_itself_cannot_be_rewritten(root: Root, ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.inside / "lib" / "deep").mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(ground.inside / "lib"))
    assert str(ground.inside / "lib") in own_program.list_own_folders()
    for path in ("lib/json.py", "lib/deep/x.py", "lib/new/x.py"):
        with pytest.raises(FileRefused) as caught:
            OPERATIONS["write"].call(root, {"path": path, "content": "x"})
        assert "this program is loaded from" in caught.value.message
    assert _list_all(ground.inside / "lib") == ["deep"]
    OPERATIONS["write"].call(root, {"path": "library/x.py", "content": "x"})


def test_an_installation_beneath_root_is_left_alone(tmp_path: Path) -> None:
    """As in a project with a virtual environment of its own."""
    package = Path(own_program.__file__).parent.parent
    place = tmp_path / "project" / "lib"
    shutil.copytree(package, place / "inspan", ignore=shutil.ignore_patterns("__pycache__"))
    start = (
        f"import sys; sys.path.insert(0, {str(place)!r}); sys.argv[0] = 'inspan'; from inspan.cli import main; main()"
    )
    words = ["file-tools", str(tmp_path / "project"), "write"]
    done = [
        subprocess.run(
            [sys.executable, "-c", start, *words, path, "--content", "x"], capture_output=True, text=True, check=False
        )
        for path in ("lib/inspan/errors.py", "lib/json.py", "src/mine.py")
    ]
    assert [each.returncode for each in done] == [1, 1, 0], [each.stderr for each in done]
    assert not (place / "json.py").exists()


@contextmanager
def _swap(ground: Ground) -> Generator[None]:
    """Puts a link that leads out in the place of a folder, and the folder back, each in one step."""
    spot, link = ground.inside / "spot", ground.inside / "link"
    spot.mkdir()
    (spot / "secret.txt").write_text("inside\n")
    link.symlink_to(ground.outside)
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    ended, failures = threading.Event(), list[int]()

    def swap() -> None:
        for pause in cycle(_PAUSES):
            if ended.wait(pause) or failures:
                return
            if exchange(_HERE, os.fsencode(spot), _HERE, os.fsencode(link), _EXCHANGE):
                failures.append(ctypes.get_errno())

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert failures == []


@pytest.mark.parametrize("operation", ["read", "write", "edit", "list", "search"])
def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(root: Root, ground: Ground, operation: str) -> None:
    given = {"list": {"recursive": True}, "search": {"pattern": "words"}}.get(operation, {"path": "spot/secret.txt"})
    more = {"write": {"content": "inside\n"}, "edit": {"old": "inside", "new": "inside "}}.get(operation, {})
    done = 0
    with _swap(ground):
        for race in range(_RACES * 10):
            if done and race >= (_RACES if operation in ("read", "write") else _RACES // 5):
                break
            try:
                found = OPERATIONS[operation].call(root, {**given, **more})
                done += 1
                assert SECRET.strip() not in str(found)
            except InspanError:
                pass
    ground.check_untouched()
    assert done > 0


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_file_that_becomes_a_link_meanwhile_leads_nowhere(root: Root, ground: Ground, operation: str) -> None:
    spot, link = ground.inside / "spot.txt", ground.inside / "link"
    ended = threading.Event()

    def swap() -> None:
        for pause in cycle(_PAUSES):
            if ended.wait(pause):
                return
            link.symlink_to(ground.secret)
            os.rename(link, spot)
            link.write_text("inside\n")
            os.rename(link, spot)

    spot.write_text("inside\n")
    thread = threading.Thread(target=swap)
    thread.start()
    given = {"path": "spot.txt", **({"content": "inside\n"} if operation == "write" else {})}
    done = 0
    try:
        for race in range(_RACES * 10):
            if done and race >= _RACES:
                break
            try:
                assert SECRET not in str(OPERATIONS[operation].call(root, given))
                done += 1
            except InspanError:
                pass
    finally:
        ended.set()
        thread.join()
    ground.check_untouched()
    assert done > 0


def _list_all(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
