"""What is shipped, what it pulls in, and which way its imports point."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"vfs": ROOT / "vfs", "vfs_backends": ROOT / "backends", "vfs_tools": ROOT / "tools"}
HEAVY = [
    "boto3",
    "botocore",
    "starlette",
    "pydantic",
    "textual",
    "fs",
    "sqlite_utils",
    "cryptography",
    "rich",
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel with the build tool that is installed, from the tree as it is."""
    directory = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = directory.glob("*.whl")
    return zipfile.ZipFile(built)


def source_files() -> set[str]:
    """Return every file of the three packages, under the name it has when installed."""
    found = set()
    for package, folder in PACKAGES.items():
        base = folder.parent if folder.name == package else folder
        for file in (base / package).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                found.add(file.relative_to(base).as_posix())
    return found


def test_the_wheel_holds_the_three_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == source_files()


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_typed(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()
    assert f"{package}/__init__.py" in wheel.namelist()


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(name).decode())
    assert dict(entry_points["console_scripts"]) == {"vfs": "vfs_tools.cli:main"}


def test_imports_only_ever_point_down() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_vfs_is_light() -> None:
    """What a face needs is imported by the face: a program that uses the kernel pays for nothing else."""
    script = f"import sys, vfs; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
