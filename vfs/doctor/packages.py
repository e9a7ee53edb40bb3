"""How each system installs what is missing."""

import glob
from collections.abc import Callable

_MANAGERS = {
    "apt-get": "apt-get install -y",
    "dnf": "dnf install -y",
    "pacman": "pacman -S --needed",
    "zypper": "zypper install -y",
    "apk": "apk add",
    "brew": "brew install",
}

_NAMES = {
    "libfuse2": {"dnf": "fuse-libs", "pacman": "fuse2", "apk": "fuse", "brew": "--cask macfuse"},
    "fuse3": {"brew": "--cask macfuse"},
}

_ABSENT = {
    ("bubblewrap", "brew"): "bubblewrap is for Linux only; without it use `--provider local`",
}

_TIME64 = "/var/lib/dpkg/info/lib*t64*.list"


def install_command(package: str, which: Callable[[str], str | None], *, root: bool) -> str:
    """Return the command that installs `package` (Debian 12's name for it) on this system.

    `which` finds programs; `root` tells whether `sudo` can be left out. Where no package manager is known
    it is a sentence.
    """
    manager = next((name for name in _MANAGERS if which(name)), None)
    if manager is None:
        return f"install `{package}` with your system's package manager"
    if (package, manager) in _ABSENT:
        return _ABSENT[package, manager]
    name = _NAMES.get(package, {}).get(manager, package)
    if package == "libfuse2" and manager == "apt-get" and glob.glob(_TIME64):
        name = "libfuse2t64"  # renamed with the change to a 64-bit time_t: Ubuntu 24.04, Debian 13
    sudo = "" if root or manager == "brew" else "sudo "
    return f"{sudo}{_MANAGERS[manager]} {name}"
