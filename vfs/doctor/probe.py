"""The raw looks at the machine, free of any judgement."""

import ctypes
import errno
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import NamedTuple

_OPENAT2 = 437
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_VERSION = 1
_AT_FDCWD = -100
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08

_FUSE_LIBRARIES = {
    "Linux": ("libfuse.so.2",),
    "Darwin": ("/usr/local/lib/libfuse.2.dylib", "/usr/local/lib/libfuse-t.dylib"),
}


class Outcome(NamedTuple):
    """How a program ended: its exit code (None if it could not be started or hung) and what it said."""

    code: int | None
    output: str


class _OpenHow(ctypes.Structure):
    """The kernel's `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Probe:
    """Where to look. The defaults are this machine; another path shows how a lack is told.

    `search_path` is where programs are sought, None meaning the environment's PATH; `storage` is a
    directory on the disk that will hold the zones; `root` tells whether this process is an administrator's.
    """

    fuse_device: str = "/dev/fuse"
    proc: str = "/proc"
    search_path: str | None = None
    storage: str = "."
    system: str = platform.system()
    release: str = platform.release()
    root: bool = field(default_factory=lambda: os.geteuid() == 0)

    def which(self, program: str) -> str | None:
        """Return where `program` is, or None."""
        return shutil.which(program, path=self.search_path)

    def run(self, *command: str) -> Outcome:
        """Run a short `command` to its end, at most ten seconds."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=10,
                check=False,
            )
        except OSError as error:
            return Outcome(None, str(error.strerror))
        except subprocess.TimeoutExpired:
            return Outcome(None, "no answer within 10 seconds")
        return Outcome(done.returncode, done.stdout.decode(errors="replace").strip())

    def read_proc(self, name: str) -> str | None:
        """Return the text of a file under /proc, or None where there is none."""
        try:
            with open(os.path.join(self.proc, name), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def open_fuse_device(self) -> int:
        """Return 0 if the FUSE device can be opened, otherwise the errno."""
        try:
            os.close(os.open(self.fuse_device, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def fuse_library(self) -> str | None:
        """Return the name of the FUSE 2 library that can be loaded, or None.

        FUSE_LIBRARY_PATH in the environment is the only candidate where it is set, as for fusepy.
        """
        named = os.environ.get("FUSE_LIBRARY_PATH")
        for name in (named,) if named else _FUSE_LIBRARIES.get(self.system, ("libfuse.so",)):
            try:
                ctypes.CDLL(name)
            except OSError:
                continue
            return name
        return None

    def openat2(self) -> int:
        """Return 0 if the kernel resolves beneath a directory in one call, otherwise the errno."""
        if self.system != "Linux":
            return errno.ENOSYS
        how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        descriptor, number = _syscall(
            _OPENAT2,
            ctypes.c_long(_AT_FDCWD),
            ctypes.c_char_p(b"."),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor < 0:
            return number
        os.close(descriptor)
        return 0

    def landlock(self) -> int:
        """Return the Landlock ABI version of the kernel, 0 where there is none."""
        if self.system != "Linux":
            return 0
        version, _ = _syscall(
            _LANDLOCK_CREATE_RULESET,
            ctypes.c_void_p(None),
            ctypes.c_size_t(0),
            ctypes.c_uint32(_LANDLOCK_VERSION),
        )
        return max(version, 0)

    def free_bytes(self) -> int | None:
        """Return the bytes an ordinary user may still write where the zones will be, None if unknown."""
        try:
            space = os.statvfs(self.storage)
        except OSError:
            return None
        return space.f_bavail * space.f_frsize


def _syscall(number: int, *arguments: object) -> tuple[int, int]:
    """Make a system call; return its result and, if that is negative, the errno."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    result: int = call(ctypes.c_long(number), *arguments)
    return result, ctypes.get_errno()
