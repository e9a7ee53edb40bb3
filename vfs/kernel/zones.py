"""The five zones: the top-level directories of the virtual tree (seed 001, Zone Model)."""

from enum import StrEnum


class Zone(StrEnum):
    """A top-level directory with its own security characteristics; the value is its name in the tree."""

    # Enum's own hash is Python code, and verdicts are looked up by these at each access.
    __hash__ = str.__hash__

    SESSION = "session"
    WORKSPACE = "workspace"
    REPO = "repo"
    STAGED = "staged"
    WORKERS = "workers"


ZONES: dict[str, Zone] = {zone.value: zone for zone in Zone}
"""Zone by directory name, in the order in which the root lists them."""
