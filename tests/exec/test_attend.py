"""Attending to a process, with the process being an ordinary one."""

import os
import subprocess

import pytest

from vfs.exec.attend import Ending, Output, attend
from vfs.exec.child import Child

ENV = {"PATH": os.defpath}


def child(script: str) -> Child:
    return Child(
        ["sh", "-c", script],
        env=ENV,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def attended(script: str, **options: object) -> tuple[dict[str, bytes], Ending]:
    events = attend(child(script), **options)  # type: ignore[arg-type]  # as given
    written = {"stdout": b"", "stderr": b""}
    while True:
        try:
            stream, data = next(events)
        except StopIteration as end:
            return written, end.value
        written[stream] += data


def test_all_that_is_written_arrives_before_the_end() -> None:
    written, ending = attended("head -c 3000000 /dev/zero; head -c 1000 /dev/zero >&2; exit 7")
    assert ({name: len(data) for name, data in written.items()}, ending.exit_code) == (
        {"stdout": 3_000_000, "stderr": 1000}, 7,
    )  # fmt: skip


def test_a_process_that_will_not_end_is_ended_after_its_grace() -> None:
    written, ending = attended("trap 'echo asked' TERM; echo x; while :; do :; done", timeout=0.3, grace=0.2)
    assert written["stdout"] == b"x\nasked\n"
    assert (ending.exit_code, ending.timed_out) == (124, True)


def test_what_the_process_works_on_is_watched() -> None:
    readable, writable = os.pipe()
    events = attend(child("echo here; exec sleep 1000"), lost=readable)
    assert next(events) == Output("stdout", b"here\n")
    os.close(writable)
    with pytest.raises(StopIteration) as end:
        next(events)
    os.close(readable)
    assert (end.value.value.lost, end.value.value.exit_code) == (True, 137)


def test_a_pipe_that_somebody_else_holds_does_not_hold_up_the_end() -> None:
    """Of a process only its group ends with it; the jail ends the rest."""
    written, ending = attended("setsid sleep 1000 & echo $!")
    os.kill(int(written["stdout"]), 9)
    assert ending.exit_code == 0


def test_no_descriptor_is_left_open() -> None:
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        attended("echo x")
    events = attend(child("echo x; sleep 1000"))
    next(events)
    events.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_signals_after_the_end_go_nowhere() -> None:
    process = child("exit 3")
    assert process.wait(10) == 3
    process.signal(15)
    process.kill()
    process.close()
    process.close()


def test_waiting_can_be_limited() -> None:
    process = child("sleep 1000")
    with pytest.raises(TimeoutError):
        process.wait(0.01)
    process.close()
