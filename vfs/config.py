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
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, ValidationError

from vfs.kernel.errors import ConfigError
from vfs.kernel.kernel import Limits
from vfs.kernel.policy import Policy
from vfs.kernel.rules import Effect, Rule, compile_rules
from vfs.kernel.trust import TrustLevel
from vfs.kernel.zones import Zone

__all__ = ["FILE_NAME", "Settings", "load_settings", "parse_duration"]

FILE_NAME = "vfs.toml"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_duration(value: object) -> float:
    """Return seconds of a number or of a text such as `90s`, `30m`, `12h`, `14d`, `2w`. Raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"`{value}` is not a duration; write for example `30m`, `12h` or `14d`")
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[float, BeforeValidator(parse_duration)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SessionSettings(_Section):
    """How sessions start and end."""

    trust: TrustLevel = TrustLevel.SESSION
    ttl: Duration | None = None


class AuditSettings(_Section):
    """What is recorded and how safely."""

    level: Literal["access", "all"] = "access"
    durability: Literal["os", "disk"] = "os"
    heads_every: int = Field(default=256, ge=1)


class RuleSettings(_Section):
    """One path rule of the owner's."""

    name: str
    effect: Effect
    paths: tuple[str, ...] = Field(min_length=1)
    level: TrustLevel = TrustLevel.FULL
    unless: tuple[str, ...] = ()


class RulesSettings(_Section):
    """The owner's rules, and the shipped ones that are lifted."""

    lift: tuple[str, ...] = ()
    own: tuple[RuleSettings, ...] = ()


class ExecSettings(_Section):
    """How commands run."""

    provider: str = "bubblewrap"
    network: Literal["none", "host"] = "none"
    read_only: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: Duration | None = None


class Settings(_Section):
    """All of `vfs.toml`."""

    zones: Mapping[Zone, str] = Field(default_factory=dict)
    session: SessionSettings = SessionSettings()
    audit: AuditSettings = AuditSettings()
    quota: Mapping[Zone, ByteSize] = Field(default_factory=dict)
    rules: RulesSettings = RulesSettings()
    exec: ExecSettings = ExecSettings()

    @property
    def limits(self) -> Limits:
        """Return what the kernel is to limit."""
        return Limits(self.session.ttl, MappingProxyType({zone: int(n) for zone, n in self.quota.items()}))

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
    try:
        settings = Settings.model_validate(data)
        settings.policy()
    except ValidationError as error:
        raise ConfigError(f"`{path}`: {_explain(error)}", hint="docs/SETTINGS.md lists every key") from error
    except ConfigError as error:
        raise ConfigError(f"`{path}`: {error.message}", hint=error.hint) from error
    return settings


def _explain(error: ValidationError) -> str:
    def one(problem: Any) -> str:
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            return f"there is no key `{where}`"
        return f"`{where}`: {problem['msg'][0].lower()}{problem['msg'][1:]} (is `{problem['input']}`)"

    return "; ".join(one(problem) for problem in error.errors())
