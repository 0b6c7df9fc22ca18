"""Every way out of a box that was thought of, tried for real: as whoever runs the tests, and as an ordinary user."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inspan.system.entry import supports_scopes
from tests.cli_env import CliEnv
from tests.conftest import skip
from tests.running.fake_agent import Fake, fake_agent_env, run_fake_agent
from tests.sandboxes.inside import ACTS, KEY, run_in_box

pytestmark = pytest.mark.usefixtures("bubblewrap")

_GIT = "git -c user.name=a -c user.email=a@example.org -c init.defaultBranch=main -c protocol.file.allow=always"
_REFUSED = {"OSError", "PermissionError", "FileNotFoundError"}


@pytest.fixture
def home(each_user_env: CliEnv, folder_outside_tmp: Path) -> Path:
    """A home with a key in it, and another project beside the one that is worked on."""
    each_user_env.env["HOME"] = str(folder_outside_tmp)
    for name in (".ssh/id", ".aws/credentials", "other/secret.txt", ".npmrc"):
        path = folder_outside_tmp / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    return folder_outside_tmp


@pytest.fixture
def repository(each_user_env: CliEnv) -> Path:
    """The working folder as a repository with a submodule, hooks among its files, and a linked worktree."""
    inner = each_user_env.root / "inner"
    work = each_user_env.work
    for folder in (inner, work):
        folder.mkdir(exist_ok=True)
        _run(f"{_GIT} init -q && {_GIT} commit -q --allow-empty -m one", cwd=folder, by=each_user_env)
    _run(
        f"mkdir husky && echo exit > husky/pre-commit && {_GIT} submodule add -q {inner} sub",
        cwd=work,
        by=each_user_env,
    )
    _run(f"{_GIT} add . && {_GIT} commit -qm two && git config core.hooksPath husky", cwd=work, by=each_user_env)
    _run(f"{_GIT} worktree add -q {each_user_env.root}/linked", cwd=work, by=each_user_env)
    return work


def _run(command: str, *, cwd: Path, by: CliEnv) -> None:
    subprocess.run([*by.prefix, "sh", "-c", command], cwd=cwd, env=by.env, check=True, capture_output=True)


def test_nothing_of_a_home_can_be_read_but_what_was_named(each_user_env: CliEnv, fake: Fake, home: Path) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        "--read",
        str(home / ".npmrc"),
        key=f"read('{home}/.ssh/id')",
        cloud=f"read('{home}/.aws/credentials')",
        project=f"read('{home}/other/secret.txt')",
        by_proc=f"read('/proc/1/root{home}/.ssh/id')",
        by_link=f"os.symlink('{home}/.ssh/id', 'link') or read('link')",
        by_hard_link=f"os.link('{home}/.ssh/id', 'hard') or read('hard')",
        named=f"read('{home}/.npmrc')",
        named_written=f"write('{home}/.npmrc')",
        shadow="read('/etc/shadow')",
        mail="os.listdir('/var/lib')",
        devices="sorted(set(os.listdir('/dev')) & {'sda', 'vda', 'mem', 'kmsg', 'fuse', 'kvm'})",
    )
    assert found.pop("devices") == []
    readable = {name: result for name, result in found.items() if result not in _REFUSED}
    assert readable == {"named": "mine"}
    assert (home / ".npmrc").read_text() == "mine"


def test_a_variable_of_a_task_opens_no_folder(each_user_env: CliEnv, fake: Fake, home: Path) -> None:
    given = ("--env", f"TASK_FOLDER={home}/other")
    found = run_in_box(
        each_user_env, fake, *given, env=KEY, new=f"write('{home}/other/new')", read=f"read('{home}/other/secret.txt')"
    )
    assert set(found.values()) <= _REFUSED
    assert os.listdir(home / "other") == ["secret.txt"]


def test_no_key_of_the_users_environment_is_in_a_box_unless_it_was_given(each_user_env: CliEnv, fake: Fake) -> None:
    secrets = {
        "GITHUB_TOKEN": "ghp_0123456789abcdef",
        "PGPASSWORD": "correct horse",
        "STAGING_URL": "https://me:0123456789@db.example",
    }
    given = ("--env", "DEPLOY_TOKEN=dep_0123456789abcdef")
    found = run_in_box(each_user_env, fake, *given, env={**secrets, **KEY}, has="sorted(os.environ)")
    assert not secrets.keys() & set(found["has"]) and {"DEPLOY_TOKEN", "HOME"} <= set(found["has"])


def test_programs_on_path_do_not_show_what_lies_beside_them(each_user_env: CliEnv, fake: Fake, home: Path) -> None:
    secrets = [".cargo/credentials.toml", ".docker/config.json", ".fly/config.yml", "proj/.env", "free/.env"]
    secrets += [".npm-global/etc/npmrc", "env/pip.conf"]
    for name in (*secrets, ".npm-global/lib/node_modules/tool.js", "env/pyvenv.cfg", "env/lib/x", "proj/lib/x"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    (home / "proj" / ".git").mkdir()
    folders = [".cargo/bin", ".docker/bin", ".fly/bin", "proj/bin", ".npm-global/bin", "env/bin", "free/bin"]
    for folder in folders:
        (home / folder).mkdir()
        (home / folder / "tool").symlink_to("/usr/bin/true")
    entries = [
        *(str(home / folder) for folder in folders),
        str(home),
        str(home / ".ssh"),
        f"{home}/proj/node_modules/.bin",
    ]
    each_user_env.env["PATH"] = os.pathsep.join((*entries, each_user_env.env["PATH"]))
    found = run_in_box(
        each_user_env,
        fake,
        env={},
        **{name: f"read('{home}/{name}')" for name in (*secrets, ".ssh/id", ".aws/credentials", "other/secret.txt")},
        **{folder: f"shell('{home}/{folder}/tool')" for folder in folders},
        package=f"read('{home}/.npm-global/lib/node_modules/tool.js')",
        environment=f"read('{home}/env/pyvenv.cfg')",
        project=f"read('{home}/proj/lib/x')",
    )
    assert [found.pop(folder) for folder in folders] == [0] * len(folders)
    assert (found.pop("package"), found.pop("environment")) == ("mine", "mine")
    assert set(found.values()) <= _REFUSED, found


def test_no_link_in_the_working_folder_decides_what_the_next_box_shows(
    each_user_env: CliEnv, fake: Fake, home: Path
) -> None:
    work = each_user_env.work
    for name in (".venv", "tools"):
        (work / name).mkdir()
    for name, target in {".venv/bin": ".ssh", "tools/nvm": ".aws", "tools/bin": "other", "tools/read": ".aws"}.items():
        (work / name).symlink_to(home / target)
    (home / "by-name").symlink_to(work / ".venv" / "bin")
    entries = (f"{work}/.venv/bin", f"{work}/tools/bin", f"{home}/by-name", each_user_env.env["PATH"])
    each_user_env.env |= {
        "PATH": os.pathsep.join(entries),
        "VIRTUAL_ENV": f"{work}/.venv",
        "NVM_DIR": f"{work}/tools/nvm",
    }
    found = run_in_box(
        each_user_env,
        fake,
        key=f"read('{home}/.ssh/id')",
        cloud=f"read('{home}/.aws/credentials')",
        project=f"read('{home}/other/secret.txt')",
        by_link="read('.venv/bin/id')",
        by_variable="read('tools/nvm/credentials')",
    )
    assert set(found.values()) <= _REFUSED, found
    for flag in ("--read", "--add-dir", "--cwd"):
        refused = each_user_env.inspan("run", "x", "-a", "codex", "--sandbox", "bwrap", flag, "tools/read")
        assert refused.returncode == 2 and f"Name {home}/.aws itself" in refused.stderr, flag


def test_the_machine_cannot_be_written_by_any_name(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        by_link="os.symlink('/etc/inside', 'link') or write('link')",
        by_hard_link="os.link('/usr/bin/env', 'hard')",
        by_proc="write('/proc/self/root' + '/usr/inside')",
        kernel="open('/proc/sys/kernel/core_pattern', 'w')",
        writable="output('find /proc/sys /proc/irq /proc/bus /sys -writable -type f 2>/dev/null | head -3')",
        control_groups="os.mkdir('/sys/fs/cgroup/pids/inside')",
        remount="shell('mount -o remount,rw /usr')",
        bind="shell('mount --bind /tmp /usr')",
        unmount="shell('umount -l /etc')",
        swap_root="shell('pivot_root / /tmp')",
        user_namespace="shell('unshare -Ur true')",
        mount_namespace="shell('unshare -m true')",
        other_namespace="shell('nsenter -t 1 -m true')",
        device="shell('mknod /tmp/disk b 8 0')",
        root="shell('chroot / true')",
        handles="call(304, -100, b'x' * 64, 0)",
    )
    assert 0 not in found.values(), found
    assert found["handles"] == "Operation not permitted"
    assert found["writable"] == ""
    assert found["kernel"] == "OSError"
    assert not set(found.values()) & {"written", "done"}, found


@pytest.fixture
def host_listeners(folder_outside_tmp: Path) -> Iterator[dict[str, str]]:
    """What listens on the host, by how it could be reached."""
    tcp, path, nameless = (
        socket.create_server(("127.0.0.1", 0)),
        socket.socket(socket.AF_UNIX),
        socket.socket(socket.AF_UNIX),
    )
    name = f"inspan-test-{os.getpid()}-{os.urandom(4).hex()}"
    (folder_outside_tmp / "d").mkdir(mode=0o755)
    with tcp, path, nameless:
        folder_outside_tmp.chmod(0o755)
        path.bind(str(folder_outside_tmp / "d" / "host.sock"))
        os.chmod(folder_outside_tmp / "d" / "host.sock", 0o777)
        nameless.bind(f"\0{name}")
        for each in (path, nameless):
            each.listen()
        yield {
            "loopback": f"dial('127.0.0.1', {tcp.getsockname()[1]})",
            "socket": f"reach('{folder_outside_tmp}/d/host.sock')",
            "nameless": f"reach(chr(0) + '{name}')",
        }


def test_a_box_reaches_nobody_on_the_host_or_beyond(
    each_user_env: CliEnv, fake: Fake, host_listeners: dict[str, str]
) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        env=KEY,
        **host_listeners,
        address="dial('192.0.2.1', 80)",
        six="dial('2001:db8::1', 80, socket.AF_INET6)",
        name="socket.getaddrinfo('example.org', 80)",
        name_server="datagram('192.0.2.1', 53)",
        udp="datagram('127.0.0.53', 53)",
        raw="socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        packet="socket.socket(socket.AF_PACKET)",
        vsock="socket.socket(socket.AF_VSOCK)",
        interfaces="[name for _, name in socket.if_nameindex()]",
    )
    assert each_user_env.events()[0]["net"] == "gateway"
    # What is sent to an address of its own loopback arrives nowhere: nobody can listen there but the box.
    assert found.pop("udp") == "sent"
    assert found.pop("interfaces") == ["lo"]
    assert set(found.values()) <= {
        "ConnectionRefusedError",
        "OSError",
        "gaierror",
        "PermissionError",
        "FileNotFoundError",
    }


def test_a_socket_among_the_programs_that_a_box_sees_is_out_of_reach(
    each_user_env: CliEnv, fake: Fake, folder_outside_tmp: Path
) -> None:
    programs, own = folder_outside_tmp / "programs", each_user_env.work / "own.sock"
    programs.mkdir()
    folder_outside_tmp.chmod(0o755)
    each_user_env.env["PATH"] = f"{programs}:{each_user_env.env['PATH']}"
    with socket.socket(socket.AF_UNIX) as host, socket.socket(socket.AF_UNIX) as given:
        for server, path in ((host, programs / "daemon.sock"), (given, own)):
            server.bind(str(path))
            server.listen()
            path.chmod(0o777)
        found = run_in_box(
            each_user_env,
            fake,
            env=KEY,
            host=f"reach('{programs}/daemon.sock')",
            removed=f"os.unlink('{programs}/daemon.sock')",
            given="reach('own.sock')",
        )
    assert found == {"host": "ConnectionRefusedError", "removed": "OSError", "given": "reached"}


def test_what_is_kept_in_memory_has_an_end_everywhere(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        sizes="{row.split()[1]: os.statvfs(row.split()[1]).f_blocks * os.statvfs(row.split()[1]).f_frsize"
        " for row in open('/proc/mounts') if row.split()[2] == 'tmpfs' and os.access(row.split()[1], os.W_OK)}",
        device="write('/dev/new')",
        kept="write('/dev/null')",
        shared="write('/dev/shm/new')",
    )
    sizes = found.pop("sizes")
    assert {"/tmp", "/var/tmp", "/dev/shm"} <= sizes.keys() and max(sizes.values()) <= 2 * 1024**3, sizes
    assert found == {"device": "OSError", "kept": "written", "shared": "written"}


def test_a_port_of_this_machine_that_is_on_the_list_is_there_under_its_number(
    each_user_env: CliEnv, fake: Fake, host_listeners: dict[str, str]
) -> None:
    port = host_listeners["loopback"].rpartition(" ")[2].strip(")")
    found = run_in_box(each_user_env, fake, "--net", f"allow=localhost:{port}", env=KEY, **host_listeners)
    assert found == {"loopback": "reached", "socket": "FileNotFoundError", "nameless": "ConnectionRefusedError"}


def test_a_run_without_a_gateway_has_the_hosts_of_its_list_and_no_model_to_answer_for(
    cli_env: CliEnv, fake: Fake
) -> None:
    found = run_in_box(
        cli_env,
        fake,
        "--direct",
        "--net",
        "allow=api.openai.com",
        env={},
        proxy="dial('127.0.0.1', int(os.environ['HTTPS_PROXY'].rpartition(':')[2]))",
    )
    assert found == {"proxy": "reached"}
    assert not [event for event in cli_env.events() if event["kind"] == "error_reported"]


def test_with_the_network_of_the_host_its_sockets_without_a_path_are_out_of_reach(
    each_user_env: CliEnv, fake: Fake, host_listeners: dict[str, str]
) -> None:
    if not supports_scopes():
        skip("no-scopes")
    found = run_in_box(each_user_env, fake, "--net", "open", env={}, **host_listeners)
    assert found == {"loopback": "reached", "socket": "FileNotFoundError", "nameless": "PermissionError"}


def test_calls_that_lead_into_the_kernel_are_refused(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        keys="call(250, 0, -3, 0)",
        programs="call(321, 0, 0, 0)",
        counters="call(298, 0, 0, 0, 0, 0)",
        faults="call(323, 0)",
        rings="call(425, 8, 0)",
        other_numbers="call(0x40000000 | 39)",
        typing="fcntl.ioctl(0, 0x5412, b'x')",
        modules="call(175, 0, 0, 0)",
    )
    rings, numbers = found.pop("rings"), found.pop("other_numbers")
    assert {rings, numbers} == {"Function not implemented"}
    assert set(found.values()) == {"Operation not permitted", "PermissionError"}


def test_no_program_can_be_left_that_runs_as_its_owner_for_everybody(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        begun="write('left')",
        shell="output('chmod 4755 left 2>&1').rpartition(': ')[2]",
        descriptor="os.fchmod(os.open('left', os.O_RDWR), 0o4755)",
        place="os.chmod('left', 0o4755, dir_fd=os.open('.', os.O_RDONLY))",
        newest="call(452, -100, b'left', 0o4755, 0)",
        oldest="os.uname().machine == 'x86_64' and call(90, b'left', 0o4755) or 'Operation not permitted'",
        begun_with_it="os.open('with it', os.O_CREAT | os.O_RDWR, 0o4755)",
        nameless="os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)",
        device="os.mknod('node', 0o4755)",
        oldest_begun="os.uname().machine == 'x86_64' and call(85, b'old', 0o4755) or 'Operation not permitted'",
        oldest_opened="os.uname().machine == 'x86_64' and call(2, b'old', 0o101, 0o4755) or 'Operation not permitted'",
        in_memory="call(437, -100, b'new', b'A' * 24, 24)",
        opened="os.open('left', os.O_RDWR, 0o4755) > 0",
        usual="os.chmod('left', 0o2755)",
    )
    assert {name: found.pop(name) for name in ("begun", "opened", "usual", "in_memory")} == {
        "begun": "written",
        "opened": True,
        "usual": None,
        "in_memory": "Function not implemented",
    }
    assert set(found.values()) == {"Operation not permitted", "PermissionError"}, found
    (left,) = each_user_env.work.iterdir()
    assert not left.stat().st_mode & 0o4000


def test_the_first_process_of_a_box_cannot_be_killed_or_looked_into(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        kill="[os.kill(1, 9), time.sleep(0.2), os.kill(1, 0)]",
        parent="os.kill(os.getppid(), 9) or os.kill(os.getppid(), 0)",
        host_pid=f"os.kill({os.getpid()}, 0)",
        seen="len([name for name in os.listdir('/proc') if name.isdigit()])",
        attach="ctypes.CDLL(None).ptrace(16, 1, 0, 0)",
        seize="ctypes.CDLL(None).ptrace(0x4206, 1, 0, 0)",
        debugger="output('python3 -c \"import ctypes; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))\"')",
    )
    assert found.pop("attach") == found.pop("seize") == -1
    assert found.pop("debugger") == "0"
    assert found == {"kill": [None, None, None], "parent": None, "host_pid": "ProcessLookupError", "seen": 2}


def test_git_can_commit_and_nothing_that_it_runs_later_can_be_left(
    each_user_env: CliEnv, fake: Fake, repository: Path
) -> None:
    git, keep = repository / ".git", ("config", "commondir", "hooks")
    found = run_in_box(
        each_user_env,
        fake,
        commit=f"shell('echo x > new && git add new && {_GIT} commit -qm three --no-verify')",
        log="output('git log --format=%s -1')",
        branch="shell('git switch -qc feature && git switch -q -')",
        hook="write('.git/hooks/post-commit')",
        config="write('.git/config')",
        by_git="shell('git config core.fsmonitor evil')",
        elsewhere="write('.git/commondir')",
        removed="os.unlink('.git/commondir')",
        renamed="os.rename('.git', '.git2')",
        swapped="os.rename('.git/hooks', '.git/hooks2')",
        folder_moved="shell('mv .git/config .git/config2')",
        own_hooks="write('husky/pre-commit')",
        own_hooks_moved="os.rename('husky', 'husky2')",
        submodule="write('sub/.git')",
        submodule_swapped="os.rename('sub/.git', 'sub/.git2')",
        submodule_config="write('.git/modules/sub/config')",
        worktree="write('.git/worktrees/linked/commondir')",
        other_objects="write('.git/objects/info/alternates')",
        other_objects_by_http="write('.git/objects/info/http-alternates')",
        info_moved="os.rename('.git/objects/info', '.git/objects/info2')",
        objects_moved="os.rename('.git/objects', '.git/objects2')",
        upkeep="shell('git repack -adq && git prune && git commit-graph write --split && git update-server-info')",
    )
    works = {name: found.pop(name) for name in ("commit", "log", "branch", "upkeep")}
    assert works == {"commit": 0, "log": "three", "branch": 0, "upkeep": 0}
    assert 0 not in found.values() and None not in found.values() and "written" not in found.values(), found
    assert sorted(set(os.listdir(git)) & set(keep)) == sorted(keep)
    assert (git / "commondir").read_text() == ".\n"
    assert "evil" not in (git / "config").read_text()


def test_a_projects_settings_of_inspan_cannot_be_changed(each_user_env: CliEnv, fake: Fake) -> None:
    for name in ("inspan.toml", "inspan.local.toml"):
        (each_user_env.work / name).write_text("# mine\n")
    found = run_in_box(
        each_user_env,
        fake,
        seen="read('inspan.toml')",
        written="write('inspan.toml')",
        local="write('inspan.local.toml')",
        removed="os.unlink('inspan.toml')",
        moved="os.rename('inspan.toml', 'other.toml')",
        replaced="write('new') and os.replace('new', 'inspan.toml')",
    )
    assert found.pop("seen") == "# mine\n"
    assert set(found.values()) <= _REFUSED, found
    assert (each_user_env.work / "inspan.toml").read_text() == "# mine\n"


def test_what_git_is_told_to_read_and_run_elsewhere_cannot_be_planted(
    each_user_env: CliEnv, fake: Fake, repository: Path
) -> None:
    """Also where it is not there yet, and where the folder around it could be moved away with it."""
    other = each_user_env.root / "other"
    other.mkdir()
    _run(f"{_GIT} init -q", cwd=other, by=each_user_env)
    _run(
        "mkdir -p tools/git && echo cat > tools/git/clean.sh && git config core.hooksPath tools/git/hooks"
        " && git config include.path ../team/missing.cfg && git config includeIf.onbranch:evil.path ../team/branch.cfg"
        " && git config filter.own.clean 'sh ./tools/git/clean.sh' && echo '*.txt filter=own' > .gitattributes"
        " && git config core.sshCommand 'sh -c \"X=1 exec ./tools/new/ssh.sh\"'"
        " && git config alias.go '!f() { bash ./later.sh && git log a/b; }; f'"
        " && git config --add include.path parts/own.cfg"
        " && echo exit > tools/git/diff.sh && echo exit > tools/git/transfer.sh"
        " && git config lfs.customtransfer.own.path tools/git/transfer.sh"
        f" && echo text > new.txt && {_GIT} add . && {_GIT} commit -qm three",
        cwd=repository,
        by=each_user_env,
    )
    each_user_env.env["GIT_EXTERNAL_DIFF"] = "./tools/git/diff.sh"
    found = run_in_box(
        each_user_env,
        fake,
        "--add-dir",
        str(other),
        commit=f"shell('echo x >> new.txt && {_GIT} commit -qam four --no-verify')",
        beside="write('tools/beside')",
        hook="write('tools/git/hooks/pre-commit')",
        hook_folder="os.rename('tools/git/hooks', 'hooks2')",
        around="os.rename('tools/git', 'tools/git2')",
        around_all="os.rename('tools', 'tools2')",
        include="write('team/missing.cfg')",
        on_a_branch="write('team/branch.cfg')",
        include_folder="os.rename('team', 'team2')",
        program="write('tools/git/clean.sh')",
        program_of_lfs="write('tools/git/transfer.sh')",
        program_of_a_variable="write('tools/git/diff.sh')",
        program_replaced="shell('echo evil > x && mv -f x tools/git/clean.sh')",
        missing_program="write('tools/new/ssh.sh')",
        missing_program_folder="os.rename('tools/new', 'tools/new2')",
        missing_script="write('later.sh')",
        in_git_data="write('.git/parts/own.cfg')",
        in_git_data_folder="os.rename('.git/parts', '.git/parts2')",
        other_hook=f"write('{other}/.git/hooks/pre-commit')",
        other_config=f"write('{other}/.git/config')",
        other_moved=f"os.rename('{other}/.git', '{other}/.git2')",
    )
    works = {name: found.pop(name) for name in ("commit", "beside")}
    assert works == {"commit": 0, "beside": "written"}
    assert 0 not in found.values() and None not in found.values() and "written" not in found.values(), found
    assert (repository / "tools/git/clean.sh").read_text() == "cat\n"
    made = ("tools/new", "later.sh", ".git/parts", "tools/git/hooks", "team", "a")
    told = [event["message"] for event in each_user_env.events() if event["kind"] == "error_reported"]
    assert not [text for text in told for name in made if text.startswith(f"{repository}/{name}")]
    assert not [name for name in made if os.path.lexists(repository / name)], "what stood there for the run is gone"


@pytest.mark.parametrize(
    ("link", "command"),
    [
        (".git", "mv .git data && ln -s data .git"),
        (".git/hooks", "rm -rf .git/hooks && ln -s ../husky .git/hooks"),
        (".git/config", "mv .git/config settings && ln -s ../settings .git/config"),
        ("husky", "git mv husky kept && ln -s kept husky"),
        ("shared", "ln -s husky shared && git config include.path ../shared/settings"),
    ],
)
def test_a_link_that_a_box_could_replace_is_refused(
    cli_env: CliEnv, fake: Fake, tmp_path: Path, link: str, command: str
) -> None:
    work = cli_env.work
    _run(f"{_GIT} init -q && mkdir husky && echo exit > husky/pre-commit", cwd=work, by=cli_env)
    _run(f"{_GIT} add . && {_GIT} commit -qm one && git config core.hooksPath husky", cwd=work, by=cli_env)
    _run(command, cwd=work, by=cli_env)
    code, _, stderr = run_fake_agent(cli_env, fake_agent_env(fake, ACTS), "--sandbox", "bwrap", prompt="{}")
    assert code == 1, stderr
    assert f"{work / link} is a symbolic link, which a sandbox could replace" in stderr.replace("\n", " ")
    assert not list(cli_env.state.glob("projects/*/*/runs/*")), "nothing is left of a run that was refused"


def test_repositories_in_the_working_folder_are_protected_as_well(each_user_env: CliEnv, fake: Fake) -> None:
    work = each_user_env.work
    for name in ("app", "group/app", "1/2/3/4/r"):
        (work / name).mkdir(parents=True)
        _run(f"{_GIT} init -q && {_GIT} commit -q --allow-empty -m one", cwd=work / name, by=each_user_env)
    found = run_in_box(
        each_user_env,
        fake,
        commit=f"shell('cd group/app && echo x > new && git add new && {_GIT} commit -qm two --no-verify')",
        hook="write('app/.git/hooks/pre-commit')",
        by_git="shell('git -C group/app config core.fsmonitor evil')",
        deep_hook="write('1/2/3/4/r/.git/hooks/pre-commit')",
        deep_by_git="shell('git -C 1/2/3/4/r config core.fsmonitor evil')",
        deep_around="os.rename('1', '1b')",
        moved="os.rename('app', 'app2')",
        around="os.rename('group', 'group2')",
        data="os.rename('group/app/.git', 'data')",
    )
    assert found.pop("commit") == 0
    assert 0 not in found.values() and None not in found.values() and "written" not in found.values(), found


def test_a_repository_without_a_work_tree_is_protected_like_any_other(
    each_user_env: CliEnv, fake: Fake, repository: Path
) -> None:
    """As it lies around its worktrees, where it is worked in itself and below the folder that is worked in."""
    work = each_user_env.root / "around"
    for name in ("one", "two"):
        bare = work / ("" if name == "one" else "two")
        _run(
            f"git clone -q --bare {repository} {bare} && cd {bare} && {_GIT} worktree add -q main",
            cwd=repository.parent,
            by=each_user_env,
        )
        _run("mkdir -p main/.husky/_ && git config core.hooksPath .husky/_", cwd=bare, by=each_user_env)
    found = run_in_box(
        each_user_env,
        fake,
        "-C",
        str(work),
        env={},
        branch="shell('git branch new && git -C two branch new')",
        **{
            f"{name} {bare}": f"write('{bare}{name}')"
            for bare in ("", "two/")
            for name in (
                "hooks/post-commit",
                "config",
                "commondir",
                "worktrees/main/commondir",
                "objects/info/alternates",
            )
        },
        husky="write('main/.husky/pre-commit')",
        husky_script="write('two/main/.husky/_/h')",
        husky_moved="os.rename('main/.husky', 'husky')",
        by_git="shell('git -C two config core.fsmonitor evil')",
        moved="os.rename('two', 'three')",
    )
    assert found.pop("branch") == 0
    assert 0 not in found.values() and None not in found.values() and "written" not in found.values(), found


def test_a_repository_whose_head_is_a_link_is_protected_where_it_is_worked_in(cli_env: CliEnv, fake: Fake) -> None:
    _run("git init -q --bare . && ln -sf refs/heads/none HEAD", cwd=cli_env.work, by=cli_env)
    found = run_in_box(
        cli_env,
        fake,
        hook="write('hooks/post-commit')",
        config="write('config')",
        by_git="shell('git config core.fsmonitor evil')",
    )
    assert 0 not in found.values() and "written" not in found.values(), found


def test_a_folder_of_git_data_is_no_place_to_work(cli_env: CliEnv, fake: Fake) -> None:
    _run(f"{_GIT} init -q && {_GIT} init -q --bare data", cwd=cli_env.work, by=cli_env)
    for name in (".git/hooks", "data/hooks", "data/objects/info"):
        refused = cli_env.inspan(
            "run", "x", "-a", "codex", "--sandbox", "bwrap", "-C", name, env=fake_agent_env(fake, ACTS)
        )
        assert refused.returncode == 1 and "is a part of the git data" in refused.stderr.replace("\n", " "), (
            refused.stderr
        )


def test_git_data_in_a_folder_that_its_own_work_tree_names_is_protected(cli_env: CliEnv, fake: Fake) -> None:
    _run(f"{_GIT} init -q --bare .bare && echo 'gitdir: ./.bare' > .git", cwd=cli_env.work, by=cli_env)
    found = run_in_box(
        cli_env,
        fake,
        hook="write('.bare/hooks/pre-commit')",
        pointer="write('.git')",
        moved="os.rename('.bare', 'bare')",
        config="write('.bare/config')",
        upkeep="shell('git hash-object -w --stdin < .git && git gc -q')",
    )
    assert found.pop("upkeep") == 0
    assert set(found.values()) <= _REFUSED, found


@pytest.mark.parametrize("planted", ["gitdir: {other}/.git", "commondir"])
def test_git_data_that_a_work_tree_names_and_that_does_not_name_it_is_not_shown(
    cli_env: CliEnv, fake: Fake, planted: str
) -> None:
    """As an agent may leave it in a folder without a repository, for the next run there."""
    other = cli_env.root / "other"
    other.mkdir()
    _run(f"{_GIT} init -q && {_GIT} commit -q --allow-empty -m one", cwd=other, by=cli_env)
    if planted == "commondir":
        _run(f"{_GIT} init -q && echo {other}/.git > .git/commondir", cwd=cli_env.work, by=cli_env)
    else:
        (cli_env.work / ".git").write_text(planted.format(other=other))
    code, _, stderr = run_fake_agent(cli_env, fake_agent_env(fake, ACTS), "--sandbox", "bwrap", prompt="{}")
    assert code == 1, stderr
    assert f"{cli_env.work}/.git names the git data" in stderr.replace("\n", " ")
    assert not (other / ".git" / "commondir").exists()


def test_names_that_git_would_read_are_taken(each_user_env: CliEnv, fake: Fake) -> None:
    work = each_user_env.work
    _run(f"{_GIT} init -q && {_GIT} commit -q --allow-empty -m one && mkfifo .gitmodules", cwd=work, by=each_user_env)
    found = run_in_box(
        each_user_env,
        fake,
        modules="os.symlink('../..', '.git/modules')",
        worktrees="os.symlink('../..', '.git/worktrees')",
        remotes="os.symlink('../..', '.git/remotes')",
        branches="os.symlink('../..', '.git/branches')",
        remote="write('.git/remotes/origin')",
        module="os.mkdir('.git/modules/sub')",
    )
    taken = dict.fromkeys(("modules", "worktrees", "remotes", "branches"), "FileExistsError")
    assert found == {**taken, "remote": "OSError", "module": "OSError"}


def test_links_in_git_data_are_removed_and_a_repository_inside_is_told(each_user_env: CliEnv, fake: Fake) -> None:
    """git would write a message through the one, and run the settings of the other to tell of its state."""
    work, outside = each_user_env.work, each_user_env.root / "outside"
    _run(f"{_GIT} init -q && {_GIT} commit -q --allow-empty -m one", cwd=work, by=each_user_env)
    found = run_in_box(
        each_user_env,
        fake,
        link=f"os.symlink('{outside}', '.git/COMMIT_EDITMSG2')",
        folder=f"os.symlink('{outside}', '.git/refs/inspan')",
        nested=f"shell('git init -q n && cd n && {_GIT} commit -q --allow-empty -m x && cd .. && git add n')",
    )
    assert found == {"link": None, "folder": None, "nested": 0}
    assert not os.path.lexists(work / ".git/COMMIT_EDITMSG2")
    assert not os.path.lexists(work / ".git/refs/inspan")
    told = [event["message"] for event in each_user_env.events() if event["kind"] == "error_reported"]
    assert sorted(told) == [
        f"{work}/.git/COMMIT_EDITMSG2 was made a link to {outside} in the run, or from outside meanwhile, "
        "by which git would have written there: it was removed.",
        f"{work}/.git/refs/inspan was made a link to {outside} in the run, or from outside meanwhile, "
        "by which git would have written there: it was removed.",
        f"The run has put the repository {work}/n into this one: `git status` runs what its settings name. "
        f"Look at {work}/n/.git/config first, or rename {work}/n/.git.",
    ]


def test_what_git_would_run_in_a_repository_that_the_agent_has_made_is_told(each_user_env: CliEnv, fake: Fake) -> None:
    found = run_in_box(
        each_user_env,
        fake,
        made="shell('git init -q sub/x && git -C sub/x config core.fsmonitor ./evil')",
        hook="write('sub/x/.git/hooks/pre-commit')",
        runs="os.chmod('sub/x/.git/hooks/pre-commit', 0o755)",
    )
    assert found == {"made": 0, "hook": "written", "runs": None}
    told = [event["message"] for event in each_user_env.events() if event["kind"] == "error_reported"]
    data = each_user_env.work / "sub/x/.git"
    assert sorted(text.partition(" was changed in the run")[0] for text in told) == [
        f"{data}/config",
        f"{data}/hooks/pre-commit",
    ]


def test_a_folder_that_may_only_be_read_can_lie_in_the_working_folder(each_user_env: CliEnv, fake: Fake) -> None:
    data = each_user_env.work / "data"
    data.mkdir()
    _run("git init -q", cwd=data, by=each_user_env)
    found = run_in_box(
        each_user_env, fake, "--read", str(data), hook="write('data/.git/hooks/x')", file="write('data/new')"
    )
    assert set(found.values()) == {"OSError"}


def test_a_commit_in_a_linked_worktree_reaches_its_repository(
    each_user_env: CliEnv, fake: Fake, repository: Path
) -> None:
    linked = repository.parent / "linked"
    (repository / ".git" / "lfs").mkdir()
    found = run_in_box(
        each_user_env,
        fake,
        "-C",
        str(linked),
        large_file=f"write('{repository}/.git/lfs/by-its-content')",
        commit=f"shell('echo x > new && git add new && {_GIT} commit -qm linked --no-verify')",
        pointer="write('.git')",
        pointer_swapped="os.rename('.git', '.git2')",
        common="output('cat .git | cut -d\" \" -f2') and write(output('cat .git | cut -d\" \" -f2') + '/commondir')",
        config=f"write('{repository}/.git/config')",
        head=f"write('{repository}/.git/HEAD')",
        index=f"os.unlink('{repository}/.git/index')",
        other_objects=f"write('{repository}/.git/objects/info/alternates')",
        files=f"write('{repository}/new')",
    )
    assert (found.pop("commit"), found.pop("large_file")) == (0, "written")
    found.pop("files")
    assert not (repository / "new").exists(), "what lies around the worktree is the box's own"
    assert set(found.values()) <= _REFUSED, found
    done = subprocess.run(
        [*each_user_env.prefix, "git", "log", "--format=%s", "-1", "linked"],
        cwd=repository,
        env=each_user_env.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "linked"


def test_what_was_written_just_before_a_run_is_not_told_of_as_changed_in_it(cli_env: CliEnv, fake: Fake) -> None:
    """As all files of a worktree are that was made for it."""
    work = cli_env.work
    _run(f"{_GIT} init -q && mkdir tools && cp /bin/true tools/pre-push", cwd=work, by=cli_env)
    _run(f"{_GIT} add . && {_GIT} commit -qm one && git config core.hooksPath tools", cwd=work, by=cli_env)
    for sandbox in ("worktree+bwrap", "bwrap"):
        code, _, stderr = run_fake_agent(cli_env, fake_agent_env(fake, ACTS), "--sandbox", sandbox, prompt="{}")
        assert code == 0, stderr
        logs = [path.read_text() for path in cli_env.state.glob("projects/*/*/runs/*/events.jsonl")]
        assert logs and not any("was changed in the run" in log for log in logs), sandbox


@pytest.mark.parametrize("where", ["repository", "linked"])
def test_settings_of_a_worktree_cannot_be_left_for_when_git_reads_them(
    each_user_env: CliEnv, fake: Fake, repository: Path, where: str
) -> None:
    cwd = repository if where == "repository" else repository.parent / where
    place = "output('git rev-parse --absolute-git-dir') + '/config.worktree'"
    found = run_in_box(each_user_env, fake, "-C", str(cwd), planted=f"write({place})", removed=f"os.unlink({place})")
    assert set(found.values()) <= _REFUSED, found


def test_a_repository_above_the_working_folder_can_be_committed_to(
    each_user_env: CliEnv, fake: Fake, repository: Path
) -> None:
    part = repository / "part"
    _run("mkdir part", cwd=repository, by=each_user_env)
    found = run_in_box(
        each_user_env,
        fake,
        "-C",
        str(part),
        commit=f"shell('echo x > new && git add new && {_GIT} commit -qm part --no-verify')",
        above=f"write('{repository}/above')",
        hook=f"write('{repository}/.git/hooks/pre-push')",
    )
    assert found.pop("commit") == 0
    found.pop("above")
    assert not (repository / "above").exists(), "what lies around the folder is the box's own"
    assert set(found.values()) <= _REFUSED, found


@pytest.mark.parametrize("is_there", [True, False])
def test_what_inspan_and_git_obey_in_a_home_cannot_be_written_or_moved(
    cli_env: CliEnv, fake: Fake, is_there: bool
) -> None:
    home, files = cli_env.root, (".config/inspan/config.toml", ".gitconfig", ".config/git/config")
    cli_env.env |= {"HOME": str(home), "XDG_CONFIG_HOME": f"{home}/.config"}
    for name in files if is_there else ():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("# mine\n")
    before = _list_hidden(home)
    tries = {name: f"os.makedirs(os.path.dirname('{name}') or '.', exist_ok=True) or write('{name}')" for name in files}
    tries |= {
        f"{name} moved": f"os.rename('{name}', 'moved')" for name in (".config/inspan", ".config", "state", "data")
    }
    found = run_in_box(
        cli_env,
        fake,
        "-C",
        str(home),
        env={},
        **tries,
        keyring="write('.config/python_keyring/keyringrc.cfg')",
        podman="write('.config/containers/containers.conf')",
    )
    assert found.pop("podman") == "written", "in the box alone, as all that is hidden there"
    assert set(found.values()) <= _REFUSED, found
    assert _list_hidden(home) == before, "what stood there for the run is gone"
    assert not [event for event in cli_env.events() if event["kind"] == "error_reported"]


def _list_hidden(home: Path) -> list[Path]:
    return sorted(each for name in (".config", ".gitconfig") for each in (*home.glob(name), *(home / name).rglob("*")))


def test_settings_of_inspan_that_a_link_in_the_home_leads_to_cannot_be_changed(cli_env: CliEnv, fake: Fake) -> None:
    (cli_env.work / "inspan").mkdir()
    (cli_env.root / ".config").mkdir()
    (cli_env.root / ".config/inspan").symlink_to(cli_env.work / "inspan")
    cli_env.env["XDG_CONFIG_HOME"] = f"{cli_env.root}/.config"
    found = run_in_box(cli_env, fake, made="write('inspan/config.toml')", moved="os.rename('inspan', 'other')")
    assert set(found.values()) <= _REFUSED, found


def test_working_in_a_home_hides_its_credentials(each_user_env: CliEnv, fake: Fake, home: Path) -> None:
    if each_user_env.prefix:
        subprocess.run(["chown", "-R", str(each_user_env.root.stat().st_uid), str(home)], check=True)
    found = run_in_box(
        each_user_env,
        fake,
        "-C",
        str(home),
        key=f"read('{home}/.ssh/id')",
        cloud=f"read('{home}/.aws/credentials')",
        registry=f"read('{home}/.npmrc')",
        project=f"read('{home}/other/secret.txt')",
    )
    assert found.pop("project") == "mine"
    assert set(found.values()) <= _REFUSED, found
