"""A sign of life during long work, on standard error and only for a person."""

import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["counting"]


@contextlib.contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """Show how many `what` are done, as the function given says; None where nobody looks.

    Without `total` the bar only moves.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
