"""The documents say what is there: every setting, rule and environment variable, and no file that is not."""

import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from vfs.config import Settings
from vfs.kernel.rules import DEFAULT_RULES, Effect
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone

ROOT = Path(__file__).parent.parent
SETTINGS = (ROOT / "docs" / "SETTINGS.md").read_text()


def keys(settings: Any, above: str = "") -> list[str]:
    found = []
    for name, kind in get_type_hints(settings).items():
        if is_dataclass(kind):
            found += keys(kind, f"{above}{name}.")
        elif not name.startswith("_"):
            found.append(f"{above}{name}" + (".<zone>" if "Zone" in str(kind) else ""))
    return found


def test_every_setting_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([a-z_.<>]+)` \|", SETTINGS, re.MULTILINE)
    assert sorted(documented) == sorted(keys(Settings))


@pytest.mark.parametrize("word", [*(r.name for r in DEFAULT_RULES), *Effect, *TrustLevel, *Zone])
def test_every_word_of_the_settings_is_documented(word: str) -> None:
    assert f"`{word}`" in SETTINGS


def test_every_environment_variable_is_documented() -> None:
    sources = [*ROOT.glob("vfs/**/*.py"), *ROOT.glob("backends/**/*.py"), *ROOT.glob("tools/**/*.py")]
    used = {name for path in sources for name in re.findall(r"\"(VFS_[A-Z_]+)\"", path.read_text())}
    commands = (ROOT / "docs" / "COMMANDS.md").read_text() if (ROOT / "docs" / "COMMANDS.md").exists() else ""
    missing = {name for name in used if f"`{name}`" not in SETTINGS and name not in commands}
    assert not missing


@pytest.mark.parametrize("document", sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.name)
def test_a_document_names_only_files_that_are_there(document: Path) -> None:
    named = re.findall(
        r"`((?:vfs|tests|docs|backends|tools|benchmarks|examples)/[\w./*-]+)`", document.read_text()
    )
    missing = [name for name in named if not list(ROOT.glob(name.split("::")[0].rstrip("/")))]
    assert not missing
