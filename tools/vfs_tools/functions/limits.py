"""What bounds a tool's work and the size of its results."""

from dataclasses import dataclass

__all__ = ["ToolLimits"]


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Bounds of one toolset; a model reads every byte of a result, so results are kept small.

    Raises ValueError for a bound below 1 (seconds: not above 0).
    """

    result_bytes: int = 65_536
    """Content in one result: UTF-8 bytes of text, or bytes before base64."""
    names: int = 1_000
    """Names that `list_files` and `glob` return unless asked for fewer; also the most they return."""
    line_characters: int = 500
    """Characters of one line that `search` shows."""
    file_bytes: int = 16 << 20
    """Size of a file that `edit_file` and `search` still take on."""
    file_seconds: float = 2.0
    """Time that a regular expression gets for one file."""
    total_seconds: float = 20.0
    """Time that one `glob` or `search` gets before it hands back what it has."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value <= 0 or (isinstance(value, int) and value < 1):
                raise ValueError(f"`{name}` must be above 0, not `{value}`")
