"""The same four operations through each face, with one verdict for all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Protocol

from vfs.kernel.kernel import Kernel
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.sessions import Session
from vfs.mount.server import MountServer
from vfs_tools.functions import SandboxToolset
from vfs_tools.functions.results import Refusal
from vfs_tools.pyfs import as_fs

__all__ = ["Face", "faces"]


class Face(Protocol):
    """One way in. Each method returns `ok`, `denied`, `missing` or the name of another error."""

    name: str

    def read(self, path: str) -> str: ...
    def write(self, path: str) -> str: ...
    def delete(self, path: str) -> str: ...
    def list(self, path: str) -> str: ...


def verdict(error: BaseException) -> str:
    if isinstance(error, PermissionError):
        return "denied"
    if isinstance(error, FileNotFoundError):
        return "missing"
    return type(error).__name__


class ApiFace:
    name = "api"

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def _try(self, act: Callable[..., object], *arguments: object) -> str:
        try:
            act(*arguments)
        except Exception as error:
            return verdict(error)
        return "ok"

    def read(self, path: str) -> str:
        return self._try(self._sandbox.read_bytes, path)

    def write(self, path: str) -> str:
        return self._try(self._sandbox.write, path, "new")

    def delete(self, path: str) -> str:
        return self._try(self._sandbox.delete, path)

    def list(self, path: str) -> str:
        return self._try(self._sandbox.list, path)


class ToolFace:
    name = "tool"
    _VERDICTS: ClassVar = {
        "PERMISSION_DENIED": "denied",
        "SECURITY_VIOLATION": "denied",
        "NOT_FOUND": "missing",
    }

    def __init__(self, sandbox: Sandbox) -> None:
        self._toolset = SandboxToolset(sandbox)

    def _try(self, tool: str, **arguments: object) -> str:
        result = self._toolset.execute(tool, arguments)
        return self._VERDICTS.get(result.code, result.code) if isinstance(result, Refusal) else "ok"

    def read(self, path: str) -> str:
        return self._try("read_file", path=path)

    def write(self, path: str) -> str:
        return self._try("write_file", path=path, content="new")

    def delete(self, path: str) -> str:
        return self._try("delete", path=path)

    def list(self, path: str) -> str:
        return self._try("list_files", path=path)


class FsFace:
    name = "fs"

    def __init__(self, sandbox: Sandbox) -> None:
        self._fs = as_fs(sandbox.through("fs"))

    def _try(self, act: Callable[..., object], *arguments: object) -> str:
        from fs.errors import PermissionDenied, ResourceNotFound

        try:
            act(*arguments)
        except PermissionDenied:
            return "denied"
        except ResourceNotFound:
            return "missing"
        except Exception as error:
            return type(error).__name__
        return "ok"

    def read(self, path: str) -> str:
        return self._try(self._fs.readbytes, path)

    def write(self, path: str) -> str:
        return self._try(self._fs.writebytes, path, b"new")

    def delete(self, path: str) -> str:
        return self._try(self._fs.remove, path)

    def list(self, path: str) -> str:
        return self._try(self._fs.listdir, path)


class MountFace:
    name = "fuse"

    def __init__(self, root: str) -> None:
        self._root = root

    def _try(self, act: Callable[[str], object], path: str) -> str:
        try:
            act(self._root + path)
        except Exception as error:
            return verdict(error)
        return "ok"

    def read(self, path: str) -> str:
        return self._try(lambda p: Path(p).read_bytes(), path)

    def write(self, path: str) -> str:
        return self._try(lambda p: Path(p).write_bytes(b"new"), path)

    def delete(self, path: str) -> str:
        return self._try(os.unlink, path)

    def list(self, path: str) -> str:
        return self._try(os.listdir, path)


@contextlib.contextmanager
def faces(kernel: Kernel, session: Session, project: Path) -> Iterator[list[Face]]:
    """All faces of one session; the mount is real and served by a process of its own."""
    sandbox = Sandbox(kernel, session)
    root = tempfile.mkdtemp(prefix="vfs-faces-")
    try:
        with MountServer.start(project, session.id, root):
            yield [ApiFace(sandbox), ToolFace(sandbox), FsFace(sandbox), MountFace(root)]
    finally:
        shutil.rmtree(root, ignore_errors=True)
