"""The installed agents; a test that asks for one which is missing is skipped with what would install it."""

import pytest

from .drivers import AgentDriver, AgentMissingError, Claude, Codex


def _found(agent: type[AgentDriver]) -> AgentDriver:
    try:
        return agent.find()
    except AgentMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def claude() -> AgentDriver:
    """Claude Code."""
    return _found(Claude)


@pytest.fixture(scope="session")
def codex() -> AgentDriver:
    """Codex."""
    return _found(Codex)


@pytest.fixture(scope="session", params=["claude", "codex"])
def agent(request: pytest.FixtureRequest) -> AgentDriver:
    """Each agent in turn."""
    driver = request.getfixturevalue(request.param)
    assert isinstance(driver, AgentDriver)
    return driver
