"""Telling an object that it woke up in a forked child."""

import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "renew_after_fork"]


class ForkAware(Protocol):
    """What holds descriptors, locks or connections that a forked child must not share."""

    def renew(self) -> None:
        """Called once in each forked child, before anything else runs there."""
        ...


def renew_after_fork(target: ForkAware) -> None:
    """Call `target.renew()` in every child forked while `target` is alive."""
    # Python has no way to unregister; what stays behind of a dead target is this small closure.
    reference = weakref.ref(target)

    def in_child() -> None:
        alive = reference()
        if alive is not None:
            alive.renew()

    os.register_at_fork(after_in_child=in_child)
