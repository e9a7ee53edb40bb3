"""The provider `local`: the same commands without a jail."""

from pathlib import Path

import pytest

from vfs.exec import ExecOptions, SandboxService
from vfs.exec.local import Local
from vfs.exec.providers import PROVIDERS, provider
from vfs.kernel.errors import ConfigError
from vfs.kernel.trust import TrustLevel

from .conftest import Project


def test_local_is_never_isolated() -> None:
    """Seed 000: an invariant, because whoever routes by it would take the host for a sandbox."""
    assert Local.isolated is False
    assert provider("local").isolated is False


def test_providers_are_found_by_name() -> None:
    assert {name: provider(name).name for name in PROVIDERS} == {"bubblewrap": "bubblewrap", "local": "local"}
    with pytest.raises(ConfigError, match="no provider is called `cloud`") as caught:
        provider("cloud")
    assert caught.value.hint == "use one of bubblewrap, local"


def test_a_command_works_in_the_mount_and_sees_the_host(project: Project) -> None:
    done = project.sh(
        "cat README.md; echo x > README.md; echo kept > $HOME/../working/note; echo $HOME $KEY_OF_THE_CALLER;"
        f" cat {project.path}/.env",
        trust_level="workspace", provider="local",
    )  # fmt: skip
    shown = done.stdout.splitlines()
    assert shown[0] == "# A project"
    assert shown[1].endswith("/session/.home")  # and the caller's variable is not there
    assert shown[2] == "TOKEN=do-not-show"
    assert "Permission denied" in done.stderr
    assert list((project.path / ".sandbox" / "sessions").glob("*/working/note"))


def test_the_summary_says_that_it_is_not_isolated(project: Project) -> None:
    summary = project.summary("true", provider="local")
    assert (summary["provider"], summary["isolated"], summary["network"]) == ("local", False, "host")


def test_what_a_command_leaves_running_is_ended(project: Project) -> None:
    done = project.sh(
        "setsid sh -c 'echo here > working/daemon; cd /; exec sleep 1000' >/dev/null 2>&1 &"
        " while [ ! -s working/daemon ]; do :; done; echo left",
        provider="local", cwd="/session",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "left\n")
    marked = [
        path
        for path in Path("/proc").glob("[0-9]*/environ")
        if str(project.path).encode() in _read(path) and b"VFS_EXEC=" in _read(path)
    ]
    assert marked == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_its_errors_are_a_shells(project: Project) -> None:
    options = ExecOptions(provider="local", trust_level=TrustLevel.WORKSPACE)
    with SandboxService.open(project.path, options) as service:
        broken = project.path / ".sandbox" / "sessions" / service.session_id / "working" / "broken"
        broken.write_bytes(b"\x00\x01\x02")
        broken.chmod(0o755)
        for name, code in (("no-such", 127), ("/etc/passwd", 126), ("./broken", 126)):
            with pytest.raises(Exception, match=name) as caught:
                service.exec([name], cwd="/session/working")
            assert getattr(caught.value, "exit_code", None) == code
