"""Interactive commands: a terminal of their own, shown through the caller's, which is given back as it was."""

import fcntl
import os
import select
import struct
import subprocess
import termios
from collections.abc import Iterator

import pytest

from .conftest import ROOT, Project

WAIT = 60


class Screen:
    """A terminal with `vfs exec` on it."""

    def __init__(self, project: Project, *argv: str, **options: object) -> None:
        self.outside, self.inside = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.inside)
        self.seen = ""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", "--", *project.argv(*argv, **options)], cwd=ROOT,
            env={**project.env, "TERM": "xterm-test"}, stdin=self.inside, stdout=self.inside, stderr=self.inside,
        )  # fmt: skip

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.outside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.outside, text.encode())

    def until(self, text: str) -> str:
        """Read until `text` is shown; return what was shown since the last call."""
        while text not in self.seen:
            readable, _, _ = select.select([self.outside], [], [], WAIT)
            assert readable, f"`{text}` is not shown, but: {self.seen}"
            self.seen += os.read(self.outside, 65536).decode()
        shown, _, self.seen = self.seen.partition(text)
        return shown + text

    def end(self) -> int:
        """Return the exit code; the terminal is as it was."""
        code = self.process.wait(WAIT)
        assert termios.tcgetattr(self.inside) == self.before
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.inside)
        os.close(self.outside)


@pytest.fixture
def screens() -> Iterator[list[Screen]]:
    made: list[Screen] = []
    yield made
    for screen in made:
        screen.close()


def show(screens: list[Screen], project: Project, script: str, **options: object) -> Screen:
    screens.append(Screen(project, "sh", "-c", script, **options))
    return screens[-1]


def test_a_command_on_a_terminal_has_one_of_its_own(project: Project, screens: list[Screen]) -> None:
    screen = show(
        screens, project,
        "test -t 0 && test -t 1 && test -t 2 && echo yes; echo term $TERM; (echo direct > /dev/tty); exit 5",
    )  # fmt: skip
    assert screen.until("direct").split() == ["yes", "term", "xterm-test", "direct"]
    assert screen.end() == 5


def test_with_streams_that_are_no_terminal_there_is_none(project: Project) -> None:
    done = project.sh(
        "test -t 0 || test -t 1 || echo none; echo $TERM; (: < /dev/tty) 2>/dev/null || echo no tty"
    )
    assert done.stdout.split("\n") == ["none", "dumb", "no tty", ""]


def test_the_size_is_the_callers_and_follows_it(project: Project, screens: list[Screen]) -> None:
    screen = show(
        screens, project, "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 1000 & wait; done"
    )
    screen.until("24 80")
    screen.resize(40, 132)
    screen.until("40 132")
    assert screen.end() == 0


def test_control_c_reaches_the_command_and_not_vfs(project: Project, screens: list[Screen]) -> None:
    screen = show(
        screens, project, "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 1000 & wait; done"
    )
    screen.until("ready")
    screen.type("\x03")
    screen.until("caught")
    assert screen.end() == 7


def test_control_c_ends_what_does_not_catch_it(project: Project, screens: list[Screen]) -> None:
    screen = show(screens, project, "echo ready; exec sleep 1000")
    screen.until("ready")
    screen.type("\x03")
    assert screen.end() == 130


def test_a_shell_has_job_control(project: Project, screens: list[Screen]) -> None:
    screens.append(Screen(project, "bash", "--norc", "-i"))
    screen = screens[-1]
    screen.type("echo rea''dy\n")
    screen.until("ready\r\n")
    screen.type("sh -c 'echo go''ing; exec sleep 1000'\n")
    screen.until("going\r\n")
    screen.type("\x1a")
    screen.until("Stopped")
    screen.type("echo stop''ped: $(jobs -s | wc -l)\n")
    screen.until("stopped: 1\r\n")
    screen.type("exit 3\n")
    screen.until("There are stopped jobs")
    screen.type("exit 3\n")
    assert screen.end() == 3


def test_what_is_typed_arrives_whole(project: Project, screens: list[Screen]) -> None:
    screen = show(screens, project, "stty raw -echo; echo ready; head -c 100000 | tr a b | tail -c 10")
    screen.until("ready")
    sent = 0
    os.set_blocking(screen.outside, False)
    while sent < 100_000:
        select.select([], [screen.outside], [], WAIT)
        sent += os.write(screen.outside, b"a" * min(4096, 100_000 - sent))
    os.set_blocking(screen.outside, True)
    screen.until("b" * 10)
    assert screen.end() == 0


def test_a_large_output_is_shown_to_its_end(project: Project, screens: list[Screen]) -> None:
    screen = show(screens, project, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo the end")
    assert screen.until("the end").count("x") == 300_000
    assert screen.end() == 0


def test_the_terminal_is_given_back_when_the_command_is_ended_from_outside(
    project: Project, screens: list[Screen]
) -> None:
    screen = show(screens, project, "stty raw -echo; echo ready; sleep 1000")
    screen.until("ready")
    screen.process.terminate()
    assert screen.end() == 143


def test_the_terminal_is_given_back_when_the_command_is_not_found(
    project: Project, screens: list[Screen]
) -> None:
    screens.append(Screen(project, "no-such-command"))
    screens[-1].until("command not found")
    assert screens[-1].end() == 127


def test_unjailed_commands_have_a_terminal_of_their_own_too(project: Project, screens: list[Screen]) -> None:
    screen = show(
        screens, project, "trap 'echo caught; exit 7' INT; tty; while :; do sleep 1000 & wait; done",
        provider="local",
    )  # fmt: skip
    shown = screen.until("/dev/pts/") + screen.until("\n")
    assert os.ttyname(screen.inside) not in shown.split()
    screen.type("\x03")
    screen.until("caught")
    assert screen.end() == 7
