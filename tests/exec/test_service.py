"""`SandboxService`: seed 000's names, on the real mount."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vfs.config import load_settings
from vfs.exec import ExecOptions, SandboxService
from vfs.exec.attend import Output
from vfs.exec.errors import CommandNotFoundError
from vfs.kernel.errors import ConfigError, NotFoundError, PermissionError
from vfs.kernel.trust import TrustLevel

from .conftest import Project


@pytest.fixture
def service(project: Project) -> Iterator[SandboxService]:
    options = ExecOptions(trust_level=TrustLevel.WORKSPACE, env=("GIVEN=yes",))
    with SandboxService.open(project.path, options) as service:
        yield service


def test_a_command_gives_output_and_exit_code(service: SandboxService) -> None:
    done = service.exec(["sh", "-c", "cat; echo $GIVEN; echo err >&2; exit 4"], input=b"in\n")
    assert done == ("in\nyes\n", "err\n", 4)
    assert (service.provider, service.isolated, service.network) == ("bubblewrap", True, "none")


def test_files_go_through_the_kernel(service: SandboxService, project: Project) -> None:
    service.write_file("/workspace/data/x", "written")
    assert service.exec(["cat", "/workspace/data/x"]).stdout == "written"
    service.exec(["sh", "-c", "echo back > /session/outputs/y"])
    assert service.read_file("/session/outputs/y") == "back\n"
    with pytest.raises(PermissionError):
        service.write_file("/repo/README.md", "no")
    refused = project.entries(session_id=service.session_id, allowed=False)
    assert [(entry.face, entry.path) for entry in refused] == [("exec", "/repo/README.md")]


def test_output_comes_while_the_command_runs(service: SandboxService) -> None:
    script = "echo one; while [ ! -e /session/working/go ]; do :; done; echo two"
    events = service.exec_stream(["sh", "-c", script])
    assert next(events) == Output("stdout", b"one\n")
    service.write_file("/session/working/go", "")
    assert next(events) == Output("stdout", b"two\n")
    with pytest.raises(StopIteration) as end:
        next(events)
    assert end.value.value.exit_code == 0


def test_who_stops_listening_ends_the_command(service: SandboxService, project: Project) -> None:
    events = service.run_agent(["sh", "-c", "echo $$; exec sleep 1000"])
    next(events)
    events.close()
    assert not [line for line in project.processes() if "bwrap" in line]
    (entry,) = project.entries(session_id=service.session_id, operation="exec")
    assert entry.outcome == "INTERRUPTED"


def test_a_time_out_is_124(service: SandboxService) -> None:
    assert service.exec(["sleep", "1000"], timeout=0.2).exit_code == 124


def test_the_working_directory_can_be_chosen(service: SandboxService) -> None:
    assert service.exec(["pwd"]).stdout == "/repo\n"
    assert service.exec(["pwd"], cwd="/workspace/data").stdout == "/workspace/data\n"
    assert service.exec(["pwd"], cwd="/").stdout == "/\n"
    with pytest.raises(NotFoundError):
        service.exec(["pwd"], cwd="/workspace/none")
    with pytest.raises(NotFoundError, match="is not a directory"):
        service.exec(["pwd"], cwd="/repo/README.md")


def test_a_session_that_may_not_read_the_repository_starts_in_its_own_directory(project: Project) -> None:
    with SandboxService.open(project.path) as service:
        assert service.exec(["sh", "-c", "pwd; echo $HOME"]).stdout == "/session/working\n/session/.home\n"


def test_commands_from_several_threads_run_at_once(service: SandboxService) -> None:
    service.mount()
    results: list[str] = []
    script = "echo x > /session/working/$0; while [ ! -e /session/working/$1 ]; do :; done; echo met"
    threads = [
        threading.Thread(target=lambda p=pair: results.append(service.exec(["sh", "-c", script, *p]).stdout))
        for pair in (("a", "b"), ("b", "a"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == ["met\n", "met\n"]


def test_trust_that_is_lowered_holds_for_the_running_command(service: SandboxService) -> None:
    script = "cat /repo/README.md; echo; while [ ! -e /session/working/go ]; do :; done; cat /repo/README.md; echo $?"
    events = service.exec_stream(["sh", "-c", script])
    assert next(events).data.startswith(b"# A project")
    service.sandbox.demote("session", who="a test", reason="to see it refused")
    service.write_file("/session/working/go", "")
    written = b"".join(event.data for event in events)
    assert b"Permission denied" in written
    assert b"# A project" not in written.replace(b"# A project\n\n", b"", 1)


def test_after_destroy_nothing_is_mounted_and_the_session_is_still_there(project: Project) -> None:
    service = SandboxService.open(project.path)
    service.exec(["sh", "-c", "echo kept > /session/working/note"])
    assert project.mounts()
    service.destroy()
    service.destroy()
    assert project.mounts() == []
    with SandboxService.open(project.path, ExecOptions(session_id=service.session_id)) as again:
        assert again.read_file("/session/working/note") == "kept\n"


def test_each_command_is_on_the_log_without_the_values_of_variables(
    service: SandboxService, project: Project
) -> None:
    service.exec(["sh", "-c", "exit 3"], env={"KEY": "secret-value"})
    with pytest.raises(CommandNotFoundError):
        service.exec(["no-such-command"])
    ran, missing = project.entries(session_id=service.session_id, operation="exec")
    assert ran.metadata is not None
    assert (ran.outcome, ran.metadata["argv"], ran.metadata["provider"]) == (
        "ok", ["sh", "-c", "exit 3"], "bubblewrap",
    )  # fmt: skip
    assert ran.metadata["exit_code"] == 3
    assert "KEY" in ran.metadata["env"]
    assert "secret-value" not in repr(ran)
    assert missing.outcome == "COMMAND_NOT_FOUND"
    assert project.kernel().log.verify().ok


def test_a_variable_that_is_not_set_is_an_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with (
        SandboxService.open(project.path, ExecOptions(env=("NOT_SET",))) as service,
        pytest.raises(ConfigError, match="`NOT_SET` is not set"),
    ):
        service.exec(["true"])


def test_settings_of_the_project_hold(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "data").write_text("tool data")
    (project.path / "vfs.toml").write_text(
        '[session]\ntrust = "workspace"\n\n[exec]\nenvironment = ["FROM_HOST", "NOT_THERE", "CI=1"]\n'
        f'read_only = ["{tools}"]\ntimeout = 30\n'
    )
    monkeypatch.setenv("FROM_HOST", "host")
    with SandboxService.open(project.path) as service:
        done = service.exec(["sh", "-c", f"echo $FROM_HOST $CI; cat {tools}/data; pwd"])
    assert done.stdout == "host 1\ntool data/repo\n"


def test_settings_that_the_mount_would_not_obey_are_refused(project: Project) -> None:
    (project.path.parent / "other.toml").write_text('[session]\ntrust = "workspace"\n')
    options = ExecOptions(settings=load_settings(project.path.parent / "other.toml"))
    with pytest.raises(ConfigError, match="others were given"):
        SandboxService.open(project.path, options)


def test_no_command_is_an_error(service: SandboxService) -> None:
    for argv in ([], [""]):
        with pytest.raises(ConfigError, match="no command was given"):
            service.exec(argv)
    with pytest.raises(ConfigError, match="cannot hold NUL"):
        service.exec(["echo", "a\0b"])
