"""`vfs exec` without the command line around it: `python -m tests.exec.command PROJECT OPTIONS ARGV`.

OPTIONS is JSON. The summary goes to the file named by `report`, what failed to standard error; the exit code
is the command's or the error's.
"""

import json
import sys
from pathlib import Path

from vfs.exec import ExecOptions, run
from vfs.kernel.errors import SandboxError
from vfs.kernel.trust import TrustLevel


def main(project: str, told: str, *argv: str) -> int:
    options = json.loads(told)
    report = options.pop("report", None)
    if "trust_level" in options:
        options["trust_level"] = TrustLevel(options["trust_level"])
    for name in ("env", "read_only"):
        options[name] = tuple(options.get(name, ()))
    try:
        done = run(project, argv, ExecOptions(**options))
    except SandboxError as error:
        print(f"vfs: {error.code}: {error.message} [{error.hint}]", file=sys.stderr)
        return error.exit_code
    if report is not None:
        Path(report).write_text(json.dumps(done.summary.to_dict()))
    return done.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
