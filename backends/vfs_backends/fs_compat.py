"""PyFilesystem2, imported in a way that works everywhere; whoever needs `fs` imports it from here.

`fs` 2.4.16 makes two calls on `pkg_resources`, which setuptools 82 no longer has, which from 67.5 to 81
warns at being imported, and which fresh environments do not have at all. While `fs` is imported, and only
then, a stand-in answers those two calls by `importlib.metadata` and `pkgutil`. It is used in every
environment, so that there is one behaviour to test, and because importing the real one is slow.
"""

import importlib
import pkgutil
import sys
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

__all__ = [
    "FS",
    "OSFS",
    "Info",
    "Mode",
    "Opener",
    "Permissions",
    "ResourceType",
    "SubFS",
    "TempFS",
    "conformance_cases",
    "errors",
    "opener_errors",
    "registry",
]

_NAME = "pkg_resources"


def _declare_namespace(name: str) -> None:
    """Let other distributions add modules to the package `name`, as `fs.sshfs` does."""
    package = sys.modules[name]
    package.__path__ = pkgutil.extend_path(package.__path__, name)


def _iter_entry_points(group: str, name: str | None = None) -> Iterator[EntryPoint]:
    return iter(entry_points(group=group) if name is None else entry_points(group=group, name=name))


@contextmanager
def _stand_in() -> Iterator[None]:
    module = ModuleType(_NAME)
    module.__dict__.update(declare_namespace=_declare_namespace, iter_entry_points=_iter_entry_points)
    before = sys.modules.get(_NAME)
    sys.modules[_NAME] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules[_NAME]
        else:
            sys.modules[_NAME] = before


with _stand_in():
    from fs import errors
    from fs.base import FS
    from fs.enums import ResourceType
    from fs.info import Info
    from fs.mode import Mode
    from fs.opener import Opener, registry
    from fs.opener import errors as opener_errors
    from fs.osfs import OSFS
    from fs.permissions import Permissions
    from fs.subfs import SubFS
    from fs.tempfs import TempFS


def conformance_cases() -> type:
    """Return `fs.test.FSTestCases`, to be mixed with `unittest.TestCase`, for any Python from 3.11 on."""
    cases: type = importlib.import_module("fs.test").FSTestCases
    # Python 3.12 took this old name away, which the cases look up though they do not need it.
    return type("FSTestCases", (cases,), {"assertRaisesRegexp": unittest.TestCase.assertRaisesRegex})
