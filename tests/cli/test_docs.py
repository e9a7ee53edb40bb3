"""docs/COMMANDS.md: every command, option and exit code is documented, and nothing that there is not."""

import re
from pathlib import Path

import click
import pytest

from tests.cli.test_command import ALL
from vfs.exec import errors as exec_errors
from vfs.kernel import errors as kernel_errors
from vfs.kernel.errors import SandboxError
from vfs_tools.cli import failure
from vfs_tools.cli.app import cli
from vfs_tools.cli.lazy import LazyGroup

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "COMMANDS.md").read_text()
SECTIONS: dict[str, str] = dict(
    re.findall(r"^##+ `vfs ([a-z ]+)`\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
)
CODES = {int(code): name for code, name in re.findall(r"^\| (\d+) \| ?(.*?) ?\|", TEXT, re.MULTILINE)}


def options_in(text: str) -> set[str]:
    """Return the options that a section's table names."""
    rows = re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE)
    return {option for row in rows for option in re.findall(r"`(-[-\w]+)`", row)}


def options_of(command: click.Command) -> set[str]:
    return {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert set(SECTIONS) == {" ".join(path) for path, _, _ in ALL}


@pytest.mark.parametrize(("path", "command", "_summary"), ALL, ids=[" ".join(leaf[0]) for leaf in ALL])
def test_a_section_names_the_options_there_are(
    path: tuple[str, ...],
    command: click.Command,
    _summary: str,
) -> None:
    assert options_in(SECTIONS[" ".join(path)]) == options_of(command)


def test_the_beginning_names_the_options_of_the_root() -> None:
    beginning = TEXT[: TEXT.index("## What is written where")]
    assert options_in(beginning) == options_of(cli) | {"-h", "--help"}


def test_every_argument_is_in_the_usage() -> None:
    for path, command, _ in ALL:
        if isinstance(command, LazyGroup):
            continue
        usage = re.search(r"```\n(.*?)\n```", SECTIONS[" ".join(path)], re.DOTALL)
        assert usage is not None
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                assert parameter.make_metavar(click.Context(command)).strip("[]") in usage[1]


def every(kind: type[SandboxError]) -> list[type[SandboxError]]:
    return [kind, *(below for direct in kind.__subclasses__() for below in every(direct))]


def test_every_error_s_exit_code_is_in_the_table() -> None:
    assert kernel_errors
    assert exec_errors
    for kind in every(SandboxError):
        assert kind.exit_code in CODES, kind
        if kind not in (SandboxError, kernel_errors.FileSystemError):
            assert kind.code in CODES[kind.exit_code], kind


def test_every_code_of_the_command_itself_is_in_the_table() -> None:
    own = {value for name, value in vars(failure).items() if name.isupper() and isinstance(value, int)}
    assert own >= {2, 20, 70, 130, 141}
    assert own <= set(CODES)


def test_the_table_names_no_code_that_nothing_ends_with() -> None:
    own = {value for name, value in vars(failure).items() if name.isupper() and isinstance(value, int)}
    of_errors = {kind.exit_code for kind in every(SandboxError)}
    assert set(CODES) == {0, 124} | own | of_errors
