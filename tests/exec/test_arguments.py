"""What the jail is asked for, without starting one."""

from pathlib import Path

import pytest

from vfs.exec.bubblewrap import PATH, jail_arguments, jail_path
from vfs.exec.environment import build_environment, chosen
from vfs.exec.host import Host, is_within
from vfs.exec.ports import ZONES, Command
from vfs.kernel.errors import ConfigError

MERGED = Host(
    directories=("/usr", "/etc"),
    links=(("/bin", "usr/bin"), ("/lib64", "usr/lib64")),
    secret_files=("/etc/shadow",),
    secret_directories=("/etc/ssl/private",),
    kernel_settings=("/proc/sys",),
    resolver="/run/systemd/resolve/stub-resolv.conf",
    options=frozenset({"--disable-userns", "--perms"}),
)


def command(**options: object) -> Command:
    return Command(**{"argv": ("true",), "mount_point": Path("/m"), "cwd": "/repo", **options})  # type: ignore[arg-type]  # as given


def triples(arguments: list[str], option: str) -> list[tuple[str, str]]:
    return [(arguments[at + 1], arguments[at + 2]) for at, word in enumerate(arguments) if word == option]


def test_a_merged_usr_is_links_and_a_split_one_is_directories() -> None:
    arguments = jail_arguments(command(), MERGED)
    assert ("usr/bin", "/bin") in triples(arguments, "--symlink")
    split = Host(directories=("/usr", "/bin", "/lib", "/etc"))
    assert ("/bin", "/bin") in triples(jail_arguments(command(), split), "--ro-bind")


def test_each_zone_is_the_mounts() -> None:
    assert triples(jail_arguments(command(), MERGED), "--bind") == [
        (f"/m/{zone}", f"/{zone}") for zone in ZONES
    ]


def test_the_root_is_sealed_after_everything_is_in_its_place() -> None:
    arguments = jail_arguments(command(read_only=(Path("/opt"),)), MERGED)
    assert arguments[-4:] == ["--remount-ro", "/", "--chdir", "/repo"]


def test_what_is_secret_is_covered_after_it_is_shown() -> None:
    arguments = jail_arguments(command(), MERGED)
    assert arguments.index("/etc/shadow") > arguments.index("/etc")
    assert ("/dev/null", "/etc/shadow") in triples(arguments, "--ro-bind")
    assert ("/proc/sys", "/proc/sys") in triples(arguments, "--ro-bind")


def test_the_network_is_shared_only_if_asked_for_and_names_are_resolved_then() -> None:
    resolver = "/run/systemd/resolve/stub-resolv.conf"
    assert "--share-net" not in jail_arguments(command(), MERGED)
    assert resolver not in jail_arguments(command(), MERGED)
    arguments = jail_arguments(command(network="host"), MERGED)
    assert "--share-net" in arguments
    assert (resolver, resolver) in triples(arguments, "--ro-bind")


def test_an_older_bubblewrap_is_not_asked_for_what_it_lacks() -> None:
    old = Host(directories=("/usr",), user_namespaces=False)
    arguments = jail_arguments(command(), old)
    assert not {"--perms", "--disable-userns", "--unshare-user"} & set(arguments)
    assert {"--perms", "--disable-userns", "--unshare-user"} <= set(jail_arguments(command(), MERGED))


def test_a_project_in_a_system_directory_is_covered(tmp_path: Path) -> None:
    """Else it could be read past the kernel, at whatever trust level."""
    host = Host(directories=(str(tmp_path),))
    project = tmp_path / "src" / "app"
    project.mkdir(parents=True)
    arguments = jail_arguments(command(hidden=(project,)), host)
    assert arguments.count(str(project)) == 2
    assert arguments[arguments.index(str(project)) - 1] == "--tmpfs"


def test_no_host_path_is_named_twice_by_a_prefix() -> None:
    assert is_within("/a/b", "/a")
    assert is_within("/a", "/a")
    assert not is_within("/ab", "/a")
    assert is_within("/a", "/")


def test_path_has_the_systems_directories_and_those_that_are_shown() -> None:
    shown = command(read_only=(Path("/opt/node"), Path("/home/me/.local/bin")))
    found = jail_path(shown, "/home/me/.local/bin:/opt/node/bin:/opt/nodejs/bin:/usr/bin:/home/me/bin")
    assert found.split(":") == [*PATH, "/home/me/.local/bin", "/opt/node/bin"]


def test_little_of_the_callers_environment_is_passed() -> None:
    host = {"LANG": "de_DE.UTF-8", "TERM": "xterm", "AWS_SECRET": "s", "TZ": "UTC", "LD_PRELOAD": "x"}
    found = build_environment(host, {"ADDED": "1"}, session_id="ses_x", terminal=False)
    assert found.keys() == {"LANG", "TZ", "TERM", "USER", "LOGNAME", "VFS_SESSION", "ADDED"}
    assert (found["LANG"], found["TERM"], found["VFS_SESSION"]) == ("de_DE.UTF-8", "dumb", "ses_x")
    assert build_environment(host, {}, session_id="s", terminal=True)["TERM"] == "xterm"


def test_variables_are_given_by_name_or_with_a_value() -> None:
    host = {"HERE": "host", "EMPTY": ""}
    assert chosen(["HERE", "A=1", "B=x=y", "EMPTY", "C="], host) == {
        "HERE": "host", "A": "1", "B": "x=y", "EMPTY": "", "C": "",
    }  # fmt: skip
    assert chosen(["MISSING"], host, optional=True) == {}
    with pytest.raises(ConfigError, match="`MISSING` is not set"):
        chosen(["MISSING"], host)


@pytest.mark.parametrize(
    "options", [{"argv": ()}, {"argv": ("",)}, {"argv": ("a\0",)}, {"env": {"A=B": "x"}}]
)
def test_what_cannot_be_a_command_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        command(**options)
