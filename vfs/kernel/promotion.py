"""Promotion: an explicit act of a person that raises a session's trust, as a signed token that counts once.

The token is a JWT signed with the project's Ed25519 key, whose private half lies outside every zone. It names
the session, the level, who and why, and expires within minutes.
"""

import secrets
import time
from dataclasses import dataclass

from vfs.kernel.errors import TokenError
from vfs.kernel.keys import SigningKey
from vfs.kernel.state import StateDatabase
from vfs.kernel.trust import TrustLevel

__all__ = ["Promotion", "Promotions"]

TOKEN_SECONDS = 300
_ALGORITHM = "EdDSA"


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a valid token grants."""

    token_id: str
    session_id: str
    level: TrustLevel
    who: str
    reason: str
    issued_at: float
    """Seconds since the epoch."""


class Promotions:
    """Makes and redeems promotion tokens of one project. Thread-safe."""

    def __init__(self, state: StateDatabase, key: SigningKey, project_id: str) -> None:
        self._state = state
        self._key = key
        self._project = project_id

    def issue(
        self, session_id: str, level: TrustLevel, *, who: str, reason: str, seconds: float = TOKEN_SECONDS
    ) -> str:
        """Return a token that raises `session_id` to `level`, valid for `seconds`, once."""
        import jwt

        if not who or not reason:
            raise TokenError("a promotion names who grants it and why")
        now = time.time()
        claims = {
            "aud": self._project, "sub": session_id, "level": str(level), "who": who, "reason": reason,
            "iat": now, "exp": now + seconds, "jti": secrets.token_hex(16),
        }  # fmt: skip
        return jwt.encode(claims, self._key.private_pem, algorithm=_ALGORITHM)

    def redeem(self, token: str, session_id: str, *, trust_since: float) -> Promotion:
        """Return what `token` grants to `session_id`, and use it up.

        `trust_since` is when the session's trust was last decided on, in seconds since the epoch: a token from
        before that does not count. Raises TokenError for one that is expired, forged, for another session or
        project, overtaken or used.
        """
        promotion = self._read(token)
        if promotion.session_id != session_id:
            raise TokenError(f"the token is for session `{promotion.session_id}`, not for `{session_id}`")
        with self._state.transaction() as database:
            used = database.execute(
                "INSERT OR IGNORE INTO used_tokens (id, session_id, used_at) VALUES (?, ?, ?)",
                (promotion.token_id, session_id, time.time()),
            )
            if used.rowcount == 0:
                raise TokenError("the token was used before", hint="ask for another one")
        if promotion.issued_at <= trust_since:
            raise TokenError(
                "the session's trust was decided on after the token was made", hint="ask for another one"
            )
        return promotion

    def _read(self, token: str) -> Promotion:
        import jwt

        try:
            claims = jwt.decode(
                token, self._key.public_pem, algorithms=[_ALGORITHM], audience=self._project,
                options={"require": ["exp", "iat", "sub", "jti", "aud"]},
            )  # fmt: skip
            return Promotion(
                token_id=str(claims["jti"]),
                session_id=str(claims["sub"]),
                level=TrustLevel(claims["level"]),
                who=str(claims["who"]),
                reason=str(claims["reason"]),
                issued_at=float(claims["iat"]),
            )
        except jwt.ExpiredSignatureError:
            raise TokenError("the token has expired", hint="ask for another one") from None
        except jwt.InvalidAudienceError:
            raise TokenError("the token is for another project") from None
        except (jwt.PyJWTError, KeyError, ValueError) as error:
            raise TokenError(f"the token does not hold: {error}") from None
