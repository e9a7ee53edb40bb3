"""A log that records nothing, to tell what recording costs. It exists here only: the product has no such switch."""

from typing import Any

from vfs.kernel.kernel import Kernel
from vfs.kernel.policy import Policy
from vfs.project import open_project


class _Nothing:
    """Takes what a log and its recorders are given, and forgets it."""

    def bind(self, **_: Any) -> "_Nothing":
        return self

    def entry(self, *_: Any, **__: Any) -> int:
        return 0

    def first_write(self, *_: Any) -> int:
        return 0

    def outcome(self, *_: Any, **__: Any) -> int:
        return 0

    def close(self) -> None:
        return


def open_unrecorded(project: str, *, rules: bool = True, **options: Any) -> Kernel:
    """Open a project whose log records nothing and, without `rules`, whose policy is the bare matrix."""
    kernel = open_project(project, **options)
    kernel.log.close()
    kernel.log = _Nothing()  # type: ignore[assignment]  # it stands in for the log
    if not rules:
        kernel.policy = Policy(())
    return kernel
