"""The providers by name."""

from collections.abc import Callable

from vfs.exec.bubblewrap import Bubblewrap
from vfs.exec.local import Local
from vfs.exec.ports import Provider
from vfs.kernel.errors import ConfigError
from vfs.kernel.paths import printable

__all__ = ["PROVIDERS", "provider"]

PROVIDERS: dict[str, Callable[[], Provider]] = {"bubblewrap": Bubblewrap, "local": Local}
"""What makes each provider, by the name that settings and options use."""


def provider(name: str) -> Provider:
    """Return a provider by name. Raises ConfigError for a name that none has."""
    if name not in PROVIDERS:
        raise ConfigError(
            f"no provider is called `{printable(name)}`", hint="use one of " + ", ".join(PROVIDERS)
        )
    return PROVIDERS[name]()
