"""What people do all day, done in the jail on the mount."""

import shutil
import textwrap
import zipfile
from pathlib import Path

import pytest

from vfs.exec.host import SYSTEM

from .conftest import Project, git


def need(*programs: str) -> None:
    """Skip where a program is not among those that every jail shows."""
    for program in programs:
        found = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin")
        if found is None or not any(Path(found).resolve().is_relative_to(place) for place in SYSTEM):
            pytest.skip(f"`{program}` is not installed under /usr: install it")


def test_git_at_every_step(project: Project) -> None:
    need("git")
    done = project.sh(
        "set -e; git config --global user.name A; git config --global user.email a@example.invalid;"
        " git clone -q /repo clone; cd clone; git checkout -qb work; echo 1 >> README.md; git commit -qam one;"
        " git checkout -q main; echo 2 > other; git add other; git commit -qm two; git rebase -q main work;"
        " git gc -q; git fsck --full; git status --porcelain; git log --format=%s",
        trust_level="workspace", cwd="/session/working",
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["one", "two", "first"]), done


def test_at_full_trust_the_repository_itself(project: Project) -> None:
    need("git")
    done = project.sh(
        "git -c user.name=A -c user.email=a@example.invalid commit -q --allow-empty -m 'in place' && git fsck &&"
        " (echo 'evil' > .git/hooks/pre-commit || echo refused; git config core.pager evil || echo refused)",
        trust_level="full",
    )  # fmt: skip
    assert done.stdout.split() == ["refused", "refused"], done
    assert git("log", "--format=%s", cwd=project.path).splitlines() == ["in place", "first"]


def test_a_virtual_environment_with_an_installed_wheel(project: Project, tmp_path: Path) -> None:
    need("python3")
    wheel = make_wheel(project.path)
    done = project.sh(
        f"set -e; python3 -m venv env; env/bin/pip install -q --no-index --no-deps /repo/{wheel};"
        " env/bin/greet; env/bin/python -c 'import greeting; print(greeting.__file__)'",
        trust_level="workspace", cwd="/workspace/data",
    )  # fmt: skip
    if "ensurepip is not" in done.stdout:
        pytest.skip("the system's python3 makes no virtual environments: install python3-venv")
    assert done.returncode == 0, done
    hello, place = done.stdout.splitlines()
    assert hello == "hello from the wheel"
    assert place.startswith("/workspace/data/env/lib/")


def make_wheel(directory: Path) -> str:
    name = "greeting-1.0-py3-none-any.whl"
    info = "greeting-1.0.dist-info"
    files = {
        "greeting.py": "def main():\n    print('hello from the wheel')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ngreet = greeting:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(directory / name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name


def test_a_c_program_with_make(project: Project) -> None:
    need("gcc", "make")
    source = project.path / "src"
    source.mkdir()
    (source / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (source / "Makefile").write_text("main: main.c\n\tgcc -O1 -o $@ $<\n\nclean:\n\trm -f main\n")
    done = project.sh(
        "cp -r /repo/src . && make -s -C src && src/main && make -s -C src && make -s -C src clean && ls src",
        trust_level="workspace", cwd="/session/working",
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["built", "Makefile", "main.c"]), done


def test_node_with_an_installed_package(project: Project) -> None:
    need("node", "npm")
    package = project.path / "package"
    package.mkdir()
    (package / "package.json").write_text('{"name": "greeting", "version": "1.0.0", "main": "index.js"}')
    (package / "index.js").write_text("module.exports = 'hello from the package'\n")
    done = project.sh(
        "set -e; tar -czf package.tgz -C /repo package; npm init -y >/dev/null;"
        " npm install --offline --no-audit --no-fund --loglevel=error ./package.tgz >/dev/null;"
        " node -p 'require(\"greeting\")'",
        trust_level="workspace", cwd="/session/working",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hello from the package\n"), done


def test_sqlite_with_a_write_ahead_log(project: Project) -> None:
    need("python3")
    script = textwrap.dedent(
        """
        import sqlite3
        one = sqlite3.connect("/workspace/data/db")
        print(one.execute("pragma journal_mode=wal").fetchone()[0])
        one.execute("create table t (x)")
        two = sqlite3.connect("/workspace/data/db")
        for number in range(50):
            (one, two)[number % 2].execute("insert into t values (?)", (number,)).connection.commit()
        print(two.execute("select count(*), sum(x) from t").fetchone())
        print(two.execute("pragma integrity_check").fetchone())
        """
    )
    done = project.exec("python3", "-c", script)
    assert done.stdout.splitlines() == ["wal", "(50, 1225)", "('ok',)"], done


def test_the_usual_tools(project: Project) -> None:
    done = project.sh(
        "set -e; mkdir a; for i in 1 2 3; do echo line $i > a/$i; done; ln -s 1 a/link; chmod 750 a/2;"
        " touch -d 2001-02-03T04:05:06 a/3; tar -cf a.tar a; mkdir b; tar -xf a.tar -C b;"
        " sed -i s/line/LINE/ b/a/1; diff -r a b/a > changes || true; cat changes;"
        " stat -c '%a %Y' b/a/2 b/a/3 | sed -n '1s/ .*//p;2s/.* //p'; readlink b/a/link; grep -rl LINE b"
    )
    assert done.returncode == 0, done
    assert "> LINE 1" in done.stdout
    assert done.stdout.splitlines()[-4:] == ["750", "981173106", "1", "b/a/1"]
    if shutil.which("rsync", path="/usr/bin"):
        done = project.sh(
            "set -e; mkdir src; echo x > src/x; rsync -a src/ dst/; rsync -ai src/ dst/ | wc -l; cat dst/x"
        )
        assert done.stdout.split() == ["0", "x"], done


@pytest.mark.parametrize(
    ("level", "reads"), [("untrusted", False), ("session", False), ("workspace", True), ("full", True)]
)
def test_each_trust_level_grants_what_it_says(project: Project, level: str, reads: bool) -> None:
    done = project.sh(
        "cat /repo/README.md; for d in /repo /workspace/data /session /workers; do"
        ' ( : > "$d/new" ) && echo "${d%/data}"; done; ls -a /repo | grep -c "^.sandbox$"',
        trust_level=level,
    )
    granted = done.stdout.split("\n")
    assert ("# A project" in granted) is reads
    assert {name for name in granted if name.startswith("/")} == {
        "/session",
        *(() if level == "untrusted" else ("/workspace",)),
        *(("/repo",) if level == "full" else ()),
    }
    assert granted[-2:] == ["0", ""]
    assert (project.path / "new").exists() is (level == "full")
