"""The command as a whole: help, version, what it imports, how it fails."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

import vfs as package
from tests.cli.conftest import VFS, Vfs
from vfs_tools.cli.app import cli
from vfs_tools.cli.lazy import LazyGroup

ROOT = Path(__file__).resolve().parents[2]


def leaves(group: LazyGroup, *path: str) -> list[tuple[tuple[str, ...], click.Command, str]]:
    """Return every command with its path and the summary its group gives."""
    found: list[tuple[tuple[str, ...], click.Command, str]] = []
    for name, lazy in group.lazy.items():
        command = lazy.load()
        found.append(((*path, name), command, lazy.summary))
        if isinstance(command, LazyGroup):
            found += leaves(command, *path, name)
    return found


ALL = leaves(cli)


def test_the_version_is_the_package_s(bare: Vfs) -> None:
    assert bare.real("--version").out == f"vfs {package.__version__}\n"
    assert bare("--project", ".", "--version").out == f"vfs {package.__version__}\n"


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command line imports."""
    script = (
        "import sys; sys.argv[0] = 'vfs'\n"
        "from vfs_tools.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_the_version_imports_not_even_the_parser() -> None:
    found = imported("--version")
    assert "vfs_tools.cli" in found
    assert not {"click", "rich", "vfs.kernel", "pydantic"} & found


@pytest.mark.parametrize("arguments", [("--help",), ("audit", "--help"), ("session", "--help")])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    found = imported(*arguments)
    heavy = {
        "rich",
        "pydantic",
        "cryptography",
        "sqlite_utils",
        "fs",
        "fuse",
        "vfs.project",
        "vfs.kernel.kernel",
    }
    assert not heavy & found
    others = {name for name in found if name.startswith("vfs_tools.cli.commands.")}
    assert others <= {f"vfs_tools.cli.commands.{arguments[0]}"}


def test_the_help_of_the_root_names_every_command(bare: Vfs) -> None:
    shown = bare.real("--help").out
    for path, _, summary in ALL:
        if len(path) == 1:
            assert path[0] in shown
            assert summary.split()[0] in shown


@pytest.mark.parametrize(("path", "command", "summary"), ALL, ids=[" ".join(leaf[0]) for leaf in ALL])
def test_every_command_explains_itself(path: tuple[str, ...], command: click.Command, summary: str) -> None:
    assert command.help, "a command says what it does"
    assert summary.endswith(".")
    assert len(summary) <= 60
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{' '.join(path)} {parameter.opts[0]} says what it does"
    if not isinstance(command, LazyGroup):
        assert any("--json" in parameter.opts for parameter in command.params)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("promote",), "there is no command `vfs promote`"),
        (("session", "promot"), "did you mean `promote`"),
        (("ls", "--bogus"), "no such option"),
        (("ls", "--trust", "root"), "`root` is not one of"),
        (("ls", "a", "b"), "unexpected extra argument"),
        (("cat",), "missing argument"),
        (("audit", "log", "--since", "yesterday-ish"), "`yesterday-ish` is no time"),
        (("audit", "log", "--operation", "fly"), "`fly` is no operation; there are delete"),
        (("audit", "log", "--limit", "-1"), "-1 is not in the range"),
        (("audit", "prune", "--older-than", "soon"), "`soon` is not a duration"),
        (("audit", "export", "--format", "xml"), "`xml` is not one of"),
        (("completion", "tcsh"), "`tcsh` is not one of"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_points_to_help(
    bare: Vfs, arguments: tuple[str, ...], told: str
) -> None:
    done = bare(*arguments, code=2)
    assert done.out == ""
    first, hint = done.err.splitlines()
    assert first.startswith("vfs: ")
    assert told.lower() in first.lower()
    assert not first.endswith(".")
    assert hint.startswith("hint: see `vfs")


def test_a_wrong_command_line_is_json_too(bare: Vfs) -> None:
    error = bare("ls", "--json", "--bogus", code=2).error
    assert error["code"] == "USAGE"
    assert error["exit_code"] == 2
    assert bare("ls", "--json", "--trust", "root", code=2).error["code"] == "USAGE"


def test_only_init_exec_and_mount_make_a_project(bare: Vfs) -> None:
    done = bare("ls", code=17)
    assert f"`{bare.directory}` is no project yet" in done.err
    assert "hint: `vfs init` makes it one" in done.err
    assert bare("audit", "log", "--json", code=17).error["code"] == "INVALID_CONFIG"
    assert not (bare.directory / ".sandbox").exists()


def test_an_unexpected_fault_is_short_and_its_traceback_is_for_those_who_ask(
    vfs: Vfs, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import vfs.doctor\ndef fail(): raise RuntimeError('the floor is \\x1b[31mlava')\nvfs.doctor.examine = fail\n"
    )
    done = vfs.real("doctor", code=70, PYTHONPATH=str(broken))
    assert done.err.splitlines() == [
        "vfs: unexpected RuntimeError: the floor is \\x1b[31mlava",
        "hint: this is a fault of vfs; `VFS_DEBUG=1` shows where it happened",
    ]
    assert vfs.real("doctor", "--json", code=70, PYTHONPATH=str(broken)).error["code"] == "UNEXPECTED"
    shown = subprocess.run(
        [VFS, "doctor"],
        env={**vfs.environment, "PYTHONPATH": str(broken), "VFS_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" in shown.stderr
    assert shown.returncode == 70


def test_a_reader_who_leaves_is_no_fault(vfs: Vfs, session: str) -> None:
    (vfs.directory / "big").write_bytes(b"x" * 4_000_000)
    vfs("put", "big", "/session/working/big", "--session", session)
    process = vfs.start("cat", "/session/working/big", "--session", session)
    assert process.stdout is not None
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


def test_the_project_is_found_from_below_and_by_option_and_variable(vfs: Vfs, tmp_path: Path) -> None:
    below = vfs.directory / "src"
    assert "README.md" in vfs("ls", "/repo", "--trust", "workspace", cwd=below).out
    assert (
        "README.md"
        in vfs("--project", str(vfs.directory), "ls", "/repo", "--trust", "full", cwd=tmp_path).out
    )
    assert (
        "README.md" in vfs("ls", "/repo", "--trust", "full", cwd=tmp_path, VFS_PROJECT=str(vfs.directory)).out
    )
    done = vfs("--project", str(tmp_path / "nowhere"), "ls", code=17)
    assert f"there is no directory `{tmp_path / 'nowhere'}`" in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command(bare: Vfs, shell: str) -> None:
    script = bare("completion", shell).out
    assert "_VFS_COMPLETE" in script
    assert bare("completion", shell, "--json").json["script"].strip() == script.strip()


def complete(vfs: Vfs, words: str) -> list[str]:
    done = vfs(_VFS_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
    return [line.partition(",")[2] for line in done.out.splitlines() if line]


def test_completion_knows_commands_options_and_ids(vfs: Vfs, session: str) -> None:
    assert complete(vfs, "vfs se") == ["session"]
    assert complete(vfs, "vfs audit ver") == ["verify"]
    assert complete(vfs, "vfs ls --tr") == ["--trust"]
    assert complete(vfs, "vfs ls --trust w") == ["workspace"]
    assert complete(vfs, "vfs session show ses_") == [session]
    vfs("session", "end", session)
    assert complete(vfs, "vfs session show ses_") == []


def test_completing_an_id_does_not_open_the_kernel(vfs: Vfs, session: str) -> None:
    """A key press is answered from the database; nothing is imported that the answer does not need."""
    script = (
        "import os, sys; from vfs_tools.cli.app import run\nrun([]); sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=vfs.directory,
        env={
            **vfs.environment,
            "_VFS_COMPLETE": "bash_complete",
            "COMP_WORDS": "vfs session show ses_",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert session in done.stdout
    assert not {"vfs.project", "vfs.kernel.kernel", "pydantic", "rich"} & set(done.stderr.split())


def test_a_directory_without_project_completes_no_id(bare: Vfs) -> None:
    assert complete(bare, "vfs session show ses_") == []


def test_doctor_tells_every_check(bare: Vfs) -> None:
    done = bare("doctor", "--json", code=None)
    told = done.json
    assert done.code == (0 if told["ok"] else 1)
    assert {check["name"] for check in told["checks"]} >= {"git", "FUSE device", "bubblewrap"}
    shown = bare("doctor", code=done.code).out
    assert all(check["name"] in shown for check in told["checks"])


def test_doctor_ends_with_1_and_the_remedy_where_something_is_missing(bare: Vfs, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = bare("doctor", code=1, PATH=str(empty))
    assert "missing" in done.out
    assert "mend it" in done.out
    told = bare("doctor", "--json", code=1, PATH=str(empty)).json
    lacks = [check for check in told["checks"] if check["status"] == "missing"]
    assert all(check["remedy"] for check in lacks)
    assert "git" in {check["name"] for check in lacks}


def test_nothing_is_printed_past_the_output_module() -> None:
    """Escaping and colour are decided in one place; `print` and `click.echo` would go round it."""
    for file in (ROOT / "tools" / "vfs_tools" / "cli").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "click.echo", "click.secho"), f"{file}: {called}"


def test_json_errors_are_one_line(vfs: Vfs) -> None:
    done = vfs("cat", "/repo/README.md", "--json", code=13)
    assert len(done.err.splitlines()) == 1
    assert json.loads(done.err)["error"] == {
        "code": "PERMISSION_DENIED",
        "message": "read not permitted in repo zone",
        "path": "/repo/README.md",
        "hint": "trust level `workspace` allows it, this session has `session`",
        "exit_code": 13,
    }
