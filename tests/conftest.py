"""What all tests share: how hard Hypothesis tries, and that nothing is skipped where all has to run."""

import os
from collections.abc import Generator

import hypothesis
import pytest

# Shared machines are slow at times: what bounds a test is its number of examples, not a deadline.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=50)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Make a skip a failure, unless it is an expected failure or its reason starts with `by design:`."""
    if os.environ.get("VFS_REQUIRE_ALL") != "1" or not report.skipped or hasattr(report, "wasxfail"):
        return
    place, line, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, report.longrepr)
    reason = str(reason).removeprefix("Skipped: ")
    if not reason.startswith("by design:"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {reason} (VFS_REQUIRE_ALL=1, {place}:{line})"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
