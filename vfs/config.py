"""A project's settings: `vfs.toml` in its directory, every key optional.

[zones]                       # where a zone lives, if not under the project
workspace = "mem://"

[session]
trust = "session"             # what `vfs exec` starts with
ttl = "14d"                   # a session unused for so long is over

[audit]
level = "access"              # or "all": allowed metadata look-ups too
durability = "os"             # or "disk": survives a power cut

[quota]
session = "1GiB"

[rules]
lift = ["env-files"]          # shipped rules that shall not hold here

[[rules.own]]
name = "no-secrets"
effect = "hide"               # hide, deny, read-only or ask
paths = ["/repo/secrets"]
level = "workspace"           # binds this trust level and those below

[exec]
network = "none"              # or "host"
read_only = ["/opt/tools"]    # further host paths that commands may read
environment = ["LANG", "CI=1"]
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from vfs.kernel.errors import ConfigError
from vfs.kernel.kernel import Limits
from vfs.kernel.policy import Policy
from vfs.kernel.rules import Effect, Rule, compile_rules
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone

__all__ = ["FILE_NAME", "Settings", "load_settings", "parse_duration", "parse_size"]

FILE_NAME = "vfs.toml"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
          "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}  # fmt: skip


def parse_duration(value: object) -> float:
    """Return seconds of a number or of a text such as `90s`, `30m`, `12h`, `14d`, `2w`. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"`{value}` is not a duration; write for example `30m`, `12h` or `14d`")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(value: object) -> int:
    """Return bytes of a number or of a text such as `500MB` (10^6) or `1GiB` (2^30). Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = (
        re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", value.upper()) if isinstance(value, str) else None
    )
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"`{value}` is not a size; write for example `500MB` or `1GiB`")
    return int(float(match[1]) * _BYTES[match[2]])


@dataclass(frozen=True, slots=True)
class _Parsed:
    """An annotation that tells pydantic how to read a value, without importing it before there is one to read."""

    parse: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self.parse)


Duration = Annotated[float, _Parsed(parse_duration)]
Size = Annotated[int, _Parsed(parse_size)]
_STRICT: Mapping[str, Any] = MappingProxyType({"extra": "forbid"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How sessions start and end."""

    __pydantic_config__: ClassVar = _STRICT

    trust: TrustLevel = TrustLevel.SESSION
    ttl: Duration | None = None


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What is recorded and how safely."""

    __pydantic_config__: ClassVar = _STRICT

    level: Literal["access", "all"] = "access"
    durability: Literal["os", "disk"] = "os"
    heads_every: int = 256

    def __post_init__(self) -> None:
        if self.heads_every < 1:
            raise ValueError("`heads_every` is at least 1")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """One path rule of the owner's."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    effect: Effect
    paths: tuple[str, ...]
    level: TrustLevel = TrustLevel.FULL
    unless: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.paths:
            raise ValueError("a rule names at least one path")


@dataclass(frozen=True, slots=True)
class RulesSettings:
    """The owner's rules, and the shipped ones that are lifted."""

    __pydantic_config__: ClassVar = _STRICT

    lift: tuple[str, ...] = ()
    own: tuple[RuleSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecSettings:
    """How commands run."""

    __pydantic_config__: ClassVar = _STRICT

    provider: str = "bubblewrap"
    network: Literal["none", "host"] = "none"
    read_only: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: Duration | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All of `vfs.toml`."""

    __pydantic_config__: ClassVar = _STRICT

    zones: Mapping[Zone, str] = field(default_factory=dict)
    session: SessionSettings = field(default_factory=SessionSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    quota: Mapping[Zone, Size] = field(default_factory=dict)
    rules: RulesSettings = field(default_factory=RulesSettings)
    exec: ExecSettings = field(default_factory=ExecSettings)

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings that `data` says, as `vfs.toml` would. Raises ConfigError that names the key."""
        # pydantic takes a tenth of a second to load: only a project with settings pays for it.
        from pydantic import TypeAdapter, ValidationError

        try:
            settings: Self = TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            raise ConfigError(_explain(error.errors()), hint="docs/SETTINGS.md lists every key") from error
        settings.policy()
        return settings

    @property
    def limits(self) -> Limits:
        """Return what the kernel is to limit."""
        return Limits(self.session.ttl, MappingProxyType(dict(self.quota)))

    def policy(self) -> Policy:
        """Return the policy these rules make. Raises ConfigError."""
        own = [Rule(r.name, r.effect, r.paths, r.level, r.unless) for r in self.rules.own]
        return Policy(compile_rules(own, self.rules.lift))


def load_settings(path: Path, *, required: bool = False) -> Settings:
    """Read a settings file; a missing one is all defaults unless `required`.

    Raises ConfigError that names the file, the key, what is wrong and what would be right.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ConfigError(f"there is no settings file `{path}`", hint="`vfs init` writes one") from None
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path}` cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{path}` is not TOML: {error}", hint="mend that line") from error
    if not data:
        return Settings()
    try:
        return Settings.parse(data)
    except ConfigError as error:
        raise ConfigError(f"`{path}`: {error.message}", hint=error.hint) from error


def _explain(problems: Any) -> str:
    def one(problem: Any) -> str:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            return f"there is no key `{where}`"
        text = str(problem["msg"]).removeprefix("Value error, ")
        return f"`{where}`: {text[0].lower()}{text[1:]} (is `{problem['input']}`)"

    return "; ".join(one(problem) for problem in problems)
