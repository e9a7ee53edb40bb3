"""The result of one look at the machine."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "missing"]
"""`missing` switches something off; `warn` makes something slower, weaker or likely to fail soon."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: what was found, and for a lack what it disables and how to mend it.

    `remedy` is a command to run where there is one, otherwise a sentence. A lack has both, what is fine
    has neither; anything else is a ValueError.
    """

    name: str
    status: Status
    detail: str
    disables: str = ""
    remedy: str = ""

    def __post_init__(self) -> None:
        lack = self.status != "ok"
        if bool(self.disables) is not lack or bool(self.remedy) is not lack:
            raise ValueError(f"a lack, and only a lack, says what it disables and its remedy: `{self.name}`")
