"""The set-up that `make demo` and `make test` do, on trees and machines that are made for the test."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir() if path.is_file())
TARGETS = ["setup", "demo", "test", "check", "lint", "types", "layers", "bench", "soak", "clean", "help"]

# A project that needs nothing from anywhere: it brings its own build tool.
PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "0.1"
"""
BACKEND = """\
import zipfile

METADATA = "Metadata-Version: 2.1\\nName: tiny\\nVersion: 0.1\\nProvides-Extra: dev\\n"

def build_editable(directory, config_settings=None, metadata_directory=None):
    name, info = "tiny-0.1-py3-none-any.whl", "tiny-0.1.dist-info/"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr(info + "METADATA", METADATA)
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHON": sys.executable, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with our scripts, set up once."""
    tree = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "scripts", tree / "scripts")
    (tree / "pyproject.toml").write_text(PYPROJECT)
    (tree / "backend.py").write_text(BACKEND)
    done = run("scripts/venv", "dev", cwd=tree)
    assert done.returncode == 0, done.stderr
    assert [line.partition(" ")[0] for line in done.stdout.splitlines()] == ["setup:", "setup:"]
    return tree


def snapshot(tree: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in tree.rglob("*")}


def test_set_up_makes_a_working_environment(project: Path) -> None:
    assert run(".venv/bin/python", "-m", "pip", "show", "tiny", cwd=project).returncode == 0


def test_set_up_again_is_quick_says_nothing_and_changes_nothing(project: Path) -> None:
    run("scripts/venv", "dev", cwd=project)
    before = snapshot(project)
    start = time.monotonic()
    done = run("scripts/venv", "dev", cwd=project)
    assert time.monotonic() - start < 1
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert snapshot(project) == before


def test_set_up_again_installs_again_when_the_project_file_changed(project: Path) -> None:
    with (project / "pyproject.toml").open("a") as file:
        file.write("\n# changed\n")
    done = run("scripts/venv", "dev", cwd=project)
    assert done.stdout == "setup: installing vfs and its dependencies (dev) into .venv\n"


def test_an_environment_that_was_moved_is_made_again(project: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(project, copy, symlinks=True)
    done = run("scripts/venv", "dev", cwd=copy)
    assert "setup: making .venv with " in done.stdout
    shebang = (copy / ".venv" / "bin" / "pip").read_text().splitlines()[0]
    assert shebang.startswith(f"#!{copy}/.venv/bin/python")


def test_an_interpreter_that_is_too_old_or_absent_is_refused_by_name(project: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\necho 'it is Python 3.9.2' >&2\nexit 1\n")
    old.chmod(0o755)
    done = run("scripts/find-python", cwd=project, PYTHON=str(old))
    assert done.returncode == 1
    assert f"PYTHON=`{old}` cannot be used: it is Python 3.9.2" in done.stderr
    done = run("scripts/find-python", cwd=project, PYTHON=str(tmp_path / "absent"))
    assert done.returncode == 1
    assert "name a Python >= 3.11" in done.stderr


def test_the_newest_interpreter_is_found_and_a_shim_that_runs_nothing_is_passed_over(
    project: Path, tmp_path: Path
) -> None:
    shims = tmp_path / "bin"
    shims.mkdir()
    (shims / "python3.20").write_text(
        "#!/bin/sh\necho 'pyenv: python3.20: command not found' >&2\nexit 127\n"
    )
    (shims / "python3.20").chmod(0o755)
    newest = tmp_path / "pyenv" / "versions" / "3.19.4" / "bin" / "python3.19"
    newest.parent.mkdir(parents=True)
    newest.symlink_to(sys.executable)
    done = run(
        "scripts/find-python",
        cwd=project,
        PYTHON="",
        PATH=f"{shims}:{os.environ['PATH']}",
        PYENV_ROOT=str(tmp_path / "pyenv"),
    )
    assert done.returncode == 0
    assert "3.20" not in done.stdout
    chosen = run(done.stdout.strip(), "-c", "import sys; print(sys.version)", cwd=project).stdout
    assert chosen.strip() == sys.version


class Machine:
    """A search path with the usual tools, and only those of the optional ones that a test puts there."""

    def __init__(self, directory: Path) -> None:
        self.bin = directory / "bin"
        self.log = directory / "log"
        self.bin.mkdir(parents=True)
        for tool in ("sh", "env", "grep", "cat", "touch", "chmod"):
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        self.add("ldconfig", "echo 'libfuse.so.2 (libc6,x86-64) => /lib/libfuse.so.2'")
        self.add("id", "echo 1000")

    def add(self, name: str, script: str = "exit 0") -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def add_apt(self, *, installs: bool = True) -> None:
        """Add an apt-get that logs, and leaves a program behind for what it installed."""
        made = f'for p; do printf "#!/bin/sh\\n" >{self.bin}/$p; chmod 755 {self.bin}/$p; done'
        names = "while [ $# -gt 0 ] && [ $1 != install ]; do shift; done; shift 3"
        install = f"case $* in *install*) {names}; {made} ;; esac" if installs else "exit 100"
        self.add("apt-get", f'echo "$*" >>{self.log}\n{install}')
        self.add("apt-cache", "exit 100")

    def packages(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        script = (ROOT / "scripts" / "os-packages").read_text()
        closed = self.bin.parent / "os-packages"
        closed.write_text(script.replace("PATH=$PATH:/usr/sbin:/sbin", f"PATH={self.bin}"))
        return subprocess.run(
            ["/bin/sh", str(closed), *arguments],
            env={"PATH": str(self.bin)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def test_a_machine_that_has_everything_is_left_alone(machine: Machine) -> None:
    machine.add("git")
    machine.add_apt()
    done = machine.packages("libfuse2", "git")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not machine.log.exists()


def test_root_gets_what_is_missing_installed_and_only_that(machine: Machine) -> None:
    machine.add("git")
    machine.add("id", "echo 0")
    machine.add_apt()
    done = machine.packages("libfuse2", "git", "rsync", "--optional", "sqlite3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "setup: installing the system packages rsync sqlite3\n"
    update, install = machine.log.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install -y --no-install-recommends rsync sqlite3")


def test_sudo_is_used_where_it_asks_for_no_password(machine: Machine) -> None:
    machine.add("sudo", f'[ "$1" != -n ] || shift\necho "sudo $1" >>{machine.log}\nexec "$@"')
    machine.add("true")
    machine.add_apt()
    done = machine.packages("rsync")
    assert done.returncode == 0, done.stderr
    asked = [line for line in machine.log.read_text().splitlines() if line.startswith("sudo")]
    assert asked == ["sudo true", "sudo env", "sudo env"]


def test_neither_root_nor_sudo_says_what_to_install(machine: Machine) -> None:
    machine.add_apt()
    done = machine.packages("libfuse2", "bubblewrap", "git")
    assert done.returncode == 1
    assert "lacks bubblewrap git, and you are neither root nor is there sudo" in done.stderr
    assert "apt-get update && apt-get install -y bubblewrap git" in done.stderr
    assert not machine.log.exists()


def test_a_sudo_that_would_ask_is_not_waited_for(machine: Machine) -> None:
    machine.add("sudo", "exit 1")
    machine.add_apt()
    done = machine.packages("git")
    assert done.returncode == 1
    assert "sudo would ask for a password" in done.stderr


def test_a_system_without_apt_says_what_to_install(machine: Machine) -> None:
    machine.add("ldconfig", "exit 0")
    done = machine.packages("libfuse2", "fuse3")
    assert done.returncode == 1
    assert "there is no apt-get" in done.stderr
    assert "under the names your system gives them: libfuse2 fuse3" in done.stderr


def test_what_is_optional_may_be_lacking(machine: Machine) -> None:
    machine.add("git")
    done = machine.packages("git", "--optional", "rsync")
    assert done.returncode == 0
    assert done.stdout == (
        "setup: going on without rsync (there is no apt-get to install it with); what needs them is skipped\n"
    )


def test_an_installation_that_fails_names_what_is_still_lacking(machine: Machine) -> None:
    machine.add("id", "echo 0")
    machine.add_apt(installs=False)
    done = machine.packages("git", "--optional", "rsync")
    assert done.returncode == 1
    assert "this machine lacks git, and apt-get could not install it" in done.stderr


def test_where_libfuse2_was_renamed_it_is_asked_for_by_its_new_name(machine: Machine) -> None:
    machine.add("id", "echo 0")
    machine.add("ldconfig", f"[ ! -e {machine.bin}/libfuse2t64 ] || echo 'libfuse.so.2 (libc6) => /lib/x'")
    machine.add_apt()
    machine.add("apt-cache", '[ "$2" = libfuse2t64 ]')
    assert machine.packages("libfuse2").returncode == 0
    assert machine.log.read_text().splitlines()[-1].endswith("libfuse2t64")


def test_help_names_every_target() -> None:
    done = run("make", "help", cwd=ROOT)
    assert sorted(re.findall(r"^  make (\w+) +\S", done.stdout, re.MULTILINE)) == sorted(TARGETS)
    assert run("make", cwd=ROOT).stdout == done.stdout


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / ".ci" / "run"], ids=lambda path: path.name)
def test_each_script_is_a_program_its_shell_can_read(script: Path) -> None:
    shell = script.read_text().splitlines()[0].removeprefix("#!").split()[-1]
    assert os.access(script, os.X_OK)
    done = run(Path(shell).name, "-n", script, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="by design: shellcheck is a bonus")
def test_shellcheck_finds_nothing() -> None:
    done = run("shellcheck", *SCRIPTS, ROOT / ".ci" / "run", cwd=ROOT)
    assert done.returncode == 0, done.stdout


SKIPS = """\
import pytest

def test_tool():
    pytest.skip("rsync is not there")

@pytest.mark.skipif(True, reason="no npm")
def test_mark():
    pass

def test_design():
    pytest.skip("by design: a bonus")

@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    assert False

def test_fine():
    pass
"""


@pytest.mark.parametrize(
    ("every", "summary"),
    [("", "1 passed, 3 skipped, 1 xfailed"), ("1", "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error")],
)
@pytest.mark.parametrize("workers", ["0", "1"])
def test_where_all_is_required_a_skip_is_a_failure(
    tmp_path: Path, every: str, summary: str, workers: str
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = run(sys.executable, "-m", "pytest", "-n", workers, cwd=tmp_path, VFS_REQUIRE_ALL=every)
    assert f" {summary} in " in done.stdout
    assert ("skipped where nothing may be: rsync is not there" in done.stdout) is (every == "1")


def test_where_all_is_required_a_module_that_skips_itself_is_a_failure(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_module')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    assert run(sys.executable, "-m", "pytest", cwd=tmp_path, VFS_REQUIRE_ALL="1").returncode not in (0, 5)
    assert run(sys.executable, "-m", "pytest", cwd=tmp_path, VFS_REQUIRE_ALL="").returncode == 5
