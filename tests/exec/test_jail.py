"""What a jail shows and what it keeps back, tried from inside."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from vfs.exec.bubblewrap import Bubblewrap, jail_arguments
from vfs.exec.errors import CommandNotExecutableError, CommandNotFoundError
from vfs.kernel.errors import ConfigError, UnavailableError

from .conftest import Jail


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_the_commands(jail: Jail, code: int) -> None:
    assert jail.sh(f"exit {code}").exit_code == code


@pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("SEGV", 11)])
def test_a_command_that_a_signal_ends_has_that_exit_code(jail: Jail, name: str, number: int) -> None:
    assert jail.sh(f"kill -{name} $$").exit_code == 128 + number


def test_arguments_go_through_no_shell(jail: Jail) -> None:
    assert jail.run("printf", "%s|", "a b", "$HOME", "*", "").stdout == "a b|$HOME|*||"


def test_the_environment_is_what_was_given_and_nothing_else(
    jail: Jail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_OF_THE_CALLER", "secret-value")
    done = jail.sh("env; cat /proc/1/environ /proc/1/cmdline | tr '\\0' '\\n'", env={"GIVEN": "yes"})
    assert "secret-value" not in done.stdout
    assert str(jail.zones) not in done.stdout
    names = {line.partition("=")[0] for line in jail.run("env", env={"GIVEN": "yes"}).stdout.splitlines()}
    assert names == {"GIVEN", "HOME", "PATH", "TMPDIR", "PWD"}


def test_values_of_variables_are_not_on_any_command_line(jail: Jail) -> None:
    process = jail.provider.start(
        jail.command("sh", "-c", "read x", env={"K": "s3cr3t"}, stdin=subprocess.PIPE)
    )
    try:
        assert b"s3cr3t" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    finally:
        process.close()


def test_only_the_zones_and_memory_can_be_written(jail: Jail) -> None:
    done = jail.sh(
        "for d in / /usr /etc /bin /dev /proc /proc/sys/kernel /var /home /root /opt /srv /mnt /work; do"
        ' ( : > "$d/.vfs-written" ) 2>/dev/null && echo "$d"; done;'
        " for d in /session /workspace /repo /staged /workers /tmp /var/tmp /run /dev/shm; do"
        ' ( : > "$d/written" ) || echo "cannot write $d"; done'
    )
    assert (done.stdout, done.exit_code) == ("", 0)
    assert not Path("/tmp/written").exists()
    assert (jail.zones / "repo" / "written").exists()


def test_kernel_settings_cannot_be_written_even_by_root(jail: Jail) -> None:
    """Root needs no capability for most of /proc/sys; core_pattern would run a program on the host."""
    done = jail.sh(
        "find /proc -maxdepth 1 -type f -writable;"
        " find /proc/sys /proc/irq /proc/bus -type f -writable 2>/dev/null | head -3;"
        " (echo x > /proc/sys/kernel/core_pattern) 2>&1"
    )
    assert "Read-only file system" in done.stdout or "Permission denied" in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_nothing_else_of_the_host_is_there(jail: Jail) -> None:
    shown = jail.run("ls", "/").stdout.split()
    system = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "usr"}
    assert set(shown) - system == {
        "dev", "proc", "repo", "run", "session", "staged", "tmp", "var", "workers", "workspace",
    }  # fmt: skip


def test_what_is_not_for_everyone_in_etc_is_covered(jail: Jail) -> None:
    private = [
        path for path in Path("/etc").rglob("*") if path.is_file() and not path.stat().st_mode & stat.S_IROTH
    ]
    assert private
    for path in private:
        done = jail.run("cat", str(path))
        assert (done.stdout, done.exit_code) == ("", 1), path


def test_no_process_of_the_host_can_be_seen(jail: Jail) -> None:
    pids = [name for name in jail.run("ls", "/proc").stdout.split() if name.isdigit()]
    assert len(pids) == 2  # the jail's first process and `ls`


def test_no_descriptor_but_the_streams_is_handed_in(jail: Jail) -> None:
    assert jail.sh("ls /proc/$$/fd").stdout.split() == ["0", "1", "2"]


def test_the_command_has_a_session_of_its_own_and_no_terminal(jail: Jail) -> None:
    done = jail.sh("cut -d' ' -f1,5,6,7 /proc/self/stat; (: < /dev/tty) 2>&1")
    pid, group, session, terminal = done.stdout.splitlines()[0].split()
    assert (group, session, terminal) == ("1", "1", "0")
    assert "No such device" in done.stdout
    assert pid not in ("1", "2")


def test_no_capability_is_left_and_none_can_be_had(jail: Jail) -> None:
    status = jail.run("cat", "/proc/self/status").stdout
    fields = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert [fields[name] for name in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs")] == ["0" * 16] * 3 + ["1"]
    if "--disable-userns" in jail.provider.host.options:
        assert jail.sh("unshare --user --map-root-user true").exit_code != 0


def test_tmp_is_private_and_gone_afterwards(jail: Jail) -> None:
    assert jail.sh("echo x > /tmp/mine; ls /tmp").stdout == "mine\n"
    assert jail.sh("ls /tmp").stdout == ""


def test_without_network_there_is_loopback_and_no_route(jail: Jail) -> None:
    done = jail.sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1; tail -n +2 /proc/net/route")
    assert done.stdout.split() == ["lo"]


@pytest.fixture
def answer() -> Iterator[int]:
    """The port of a server on 127.0.0.1 that answers each connection with a line."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.sendall(b"hello from the host\n")
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize(("network", "heard"), [("host", "hello from the host\n"), ("none", "")])
def test_a_server_of_the_host_is_reached_only_with_its_network(
    jail: Jail, answer: int, network: str, heard: str
) -> None:
    script = f"exec 3<>/dev/tcp/127.0.0.1/{answer} && cat <&3"
    assert jail.run("bash", "-c", script, network=network).stdout == heard


def test_names_can_be_resolved_with_the_hosts_network(jail: Jail) -> None:
    assert "127.0.0.1" in jail.run("getent", "ahostsv4", "localhost", network="host").stdout
    if Path("/etc/resolv.conf").exists():
        assert (
            jail.run("cat", "/etc/resolv.conf", network="host").stdout == Path("/etc/resolv.conf").read_text()
        )


def test_the_machine_has_a_name_of_its_own(jail: Jail) -> None:
    assert jail.run("uname", "-n").stdout == "sandbox\n"


def test_a_daemon_dies_with_the_command(jail: Jail) -> None:
    """It holds a pipe of ours, whose end is seen only once it is dead."""
    readable, writable = os.pipe()
    command = jail.command("sh", "-c", "setsid sh -c 'sleep 1000' & echo started")
    process = jail.provider.start(replace(command, stderr=writable))
    os.close(writable)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    assert process.wait(30) == 0
    assert os.read(readable, 1) == b""
    os.close(readable)
    process.close()


def test_a_read_only_directory_is_shown_at_its_place(jail: Jail, tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "bin" / "greet"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    done = jail.sh(f"{tool}; echo x > {tool}", read_only=(tmp_path / "tools",))
    assert done.stdout == "hello\n"
    assert "Read-only file system" in done.stderr


def test_a_directory_on_the_callers_path_is_on_the_commands_path_once_it_is_shown(
    jail: Jail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "greet-the-caller"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho hello\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    with pytest.raises(CommandNotFoundError) as caught:
        jail.run("greet-the-caller")
    assert caught.value.exit_code == 127
    assert caught.value.hint == (
        f"it exists on the host at `{tool}` but is not shown in the jail; add `--ro {tool.parent}`"
    )
    assert jail.run("greet-the-caller", read_only=(tool.parent,)).stdout == "hello\n"


def test_a_command_that_is_nowhere_is_not_found(jail: Jail) -> None:
    for name in ("no-such-command", "/usr/bin/no-such-command", "./no-such-command"):
        with pytest.raises(CommandNotFoundError, match=f"command not found: `{name}`") as caught:
            jail.run(name)
        assert caught.value.hint is None


def test_what_is_no_program_cannot_be_executed(jail: Jail) -> None:
    for name in ("/etc/passwd", "/usr"):
        with pytest.raises(CommandNotExecutableError) as caught:
            jail.run(name)
        assert caught.value.exit_code == 126


def test_a_script_whose_interpreter_is_not_shown_names_it(jail: Jail) -> None:
    script = jail.zones / "repo" / "run"
    script.write_text(f"#!{sys.executable}\nprint('never')\n")
    script.chmod(0o755)
    if Path(sys.executable).is_relative_to("/usr"):
        pytest.skip("by design: this Python lies where every jail shows it")
    with pytest.raises(CommandNotExecutableError, match="needs `") as caught:
        jail.run("/repo/run")
    assert "--ro " in str(caught.value.hint)


def test_a_relative_command_is_found_from_the_working_directory(jail: Jail) -> None:
    script = jail.zones / "repo" / "run"
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert jail.run("./run", cwd="/repo").stdout == "/repo\n"


@pytest.mark.parametrize("place", ["/", "/proc", "/repo", "/session/x", "/dev/shm"])
def test_a_place_that_is_taken_cannot_be_shown(jail: Jail, place: str) -> None:
    with pytest.raises(ConfigError, match="the place is taken"):
        jail.run("true", read_only=(Path(place),))


def test_keys_are_not_shown_whatever_is_asked_for(jail: Jail, tmp_path: Path) -> None:
    keys = tmp_path / "state" / "keys"
    keys.mkdir(parents=True)
    (keys / "signing.pem").write_text("PRIVATE")
    (tmp_path / "state" / "other").write_text("fine")
    (tmp_path / "alias").symlink_to(tmp_path / "state")
    for place in (tmp_path / "state", tmp_path / "alias"):
        done = jail.sh(f"cat {place}/other; cat {place}/keys/signing.pem", read_only=(place,), secret=(keys,))
        assert done.stdout == "fine"
        assert "No such file" in done.stderr
    for place in (keys, tmp_path / "alias" / "keys", keys / "signing.pem"):
        with pytest.raises(ConfigError, match="keys, records and other sessions"):
            jail.run("true", read_only=(place,), secret=(keys,))


def test_a_part_of_what_is_hidden_can_be_shown_by_name(jail: Jail, tmp_path: Path) -> None:
    (tmp_path / "project" / "tools").mkdir(parents=True)
    (tmp_path / "project" / "tools" / "t").write_text("tool")
    (tmp_path / "project" / "private").write_text("private")
    done = jail.sh(
        f"cat {tmp_path}/project/tools/t; ls {tmp_path}/project",
        read_only=(tmp_path, tmp_path / "project" / "tools"), hidden=(tmp_path / "project",),
    )  # fmt: skip
    assert done.stdout == "tooltools\n"


def test_without_bubblewrap_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jail: Jail
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="`bwrap` is not installed") as caught:
        Bubblewrap().start(jail.command("true"))
    assert "--provider local" in str(caught.value.hint)


@pytest.fixture
def anyones() -> Iterator[Path]:
    """A directory that every user can reach, unlike those under `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="by design: only root can become an ordinary user")
def test_an_ordinary_user_has_the_same_jail(jail: Jail, anyones: Path) -> None:
    if shutil.which("setpriv") is None:
        pytest.skip("`setpriv` is not installed: install util-linux")
    shutil.copytree(jail.zones, anyones / "zones")
    for path in [anyones / "zones", *(anyones / "zones").rglob("*")]:
        os.chown(path, 65534, 65534)
    command = Jail(jail.provider, anyones / "zones").command("true")
    script = "id -u; echo x > /repo/x && echo wrote; cat /etc/shadow; ls /root; touch /usr/x; cat /proc/self/uid_map"
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bwrap",
         *jail_arguments(command, jail.provider.host), "--", "sh", "-c", script],
        env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["65534", "wrote", "65534", "0", "1"], done
    assert (anyones / "zones" / "repo" / "x").stat().st_uid == 65534
