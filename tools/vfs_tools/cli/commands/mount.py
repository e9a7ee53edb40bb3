"""`vfs mount` and `vfs umount`: the zones of a session as a directory."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vfs.kernel.paths import printable
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone
from vfs_tools.cli import output
from vfs_tools.cli.invocation import Invocation
from vfs_tools.cli.parameters import ZONE_URL, in_session, json_option, pass_invocation

if TYPE_CHECKING:
    from vfs.kernel.sessions import Session

__all__ = ["mount", "umount"]


@click.command()
@click.argument("directory", metavar="DIR")  # as text: click.Path would wait for a dead mount
@in_session
@click.option("--foreground", is_flag=True, help="Serve it from this process, until Ctrl-C.")
@click.option(
    "--zone", "zones", metavar="NAME=URL", type=ZONE_URL, multiple=True, help="Put a zone at another URL."
)
@json_option
@pass_invocation
def mount(
    invocation: Invocation,
    directory: str,
    session_id: str | None,
    trust: TrustLevel | None,
    foreground: bool,  # noqa: FBT001 (click passes by name)
    zones: tuple[tuple[Zone, str], ...],
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """Show the zones of a session at DIR, an empty directory.

    Returns once programs can use it; `vfs umount DIR` ends it, and the session goes on. Without `--session`
    another one is started.
    """
    told = None if foreground else _Background.begin()
    from vfs.mount import serve

    with invocation.kernel(make=True, zones=dict(zones)) as kernel:
        session = invocation.enter(kernel, session_id, trust)
        # Asked before: once the zones are there, looking at them waits for this very thread.
        point = os.path.realpath(directory)
        done = False

        def ready() -> None:
            nonlocal done
            done = True
            _tell(point, session, as_json=as_json)
            output.finish()
            if told is not None:
                log = os.path.join(invocation.directory, ".sandbox", "mount.log")
                told.detach(log)

        try:
            serve(kernel, session, directory, ready=ready)
        except BaseException:
            if session_id is None and not done:
                kernel.end(session.id)
            raise


class _Background:
    """A server that goes on when the command returns.

    The process splits before anything is opened. The child serves; until it answers it has the command's
    streams, so that it tells itself what goes wrong. The parent waits, and ends as the child says.
    """

    def __init__(self, writer: int) -> None:
        self._writer = writer

    @classmethod
    def begin(cls) -> "_Background":
        """Return in the child; the parent ends here when the child is ready, or with its exit code."""
        sys.stdout.flush()
        reader, writer = os.pipe()
        child = os.fork()
        if child:
            os.close(writer)
            cls._wait(reader, child)
        os.close(reader)
        os.setsid()
        return cls(writer)

    @staticmethod
    def _wait(reader: int, child: int) -> NoReturn:
        try:
            if os.read(reader, 1):
                raise click.exceptions.Exit(0)
            _, status = os.waitpid(child, 0)
        except KeyboardInterrupt:
            os.kill(child, signal.SIGTERM)
            raise
        raise click.exceptions.Exit(abs(os.waitstatus_to_exitcode(status)))

    def detach(self, log: str) -> None:
        """Let the parent return, and let go of its streams and directory; what is said later goes to `log`."""
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for number, source in enumerate((nothing, nothing, errors)):
            os.dup2(source, number)
        for descriptor in (nothing, errors):
            os.close(descriptor)
        os.chdir("/")
        os.write(self._writer, b"\n")
        os.close(self._writer)


def _tell(point: str, session: "Session", *, as_json: bool) -> None:
    shown: dict[str, Any] = {
        "mount_point": point,
        "session_id": session.id,
        "trust_level": str(session.trust_level),
        "pid": os.getpid(),
    }
    if as_json:
        output.document(shown)
    else:
        output.text(f"session {session.id} ({session.trust_level}) is at {printable(point)}")
        output.text(f"end it:  vfs umount {printable(point)}")


@click.command()
@click.argument("directory", metavar="DIR")  # as text: click.Path would wait for a dead mount
@click.option("--force", is_flag=True, help="Even while programs are using it.")
@json_option
def umount(
    directory: str,
    force: bool,  # noqa: FBT001 (click passes by name)
    as_json: bool,  # noqa: FBT001 (as above)
) -> None:
    """End the mount at DIR, a dead one too. Its session goes on, and can be mounted again."""
    from vfs.mount import unmount

    unmount(directory, force=force)
    if as_json:
        output.document({"mount_point": os.path.realpath(directory), "unmounted": True})
    else:
        output.text(f"{printable(directory)} is unmounted")
