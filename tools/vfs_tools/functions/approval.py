"""What a call needs before it is made: seed 001's approval protocol.

A verdict here is a forecast for the person who is asked; it grants nothing. The door decides again when the
tool runs.
"""

from vfs.kernel.errors import SandboxError
from vfs.kernel.sandbox import Sandbox
from vfs.kernel.trust import Operation
from vfs.kernel.zones import Zone
from vfs_tools.functions.results import ApprovalResult

__all__ = ["NEEDS_APPROVAL", "PRE_APPROVED", "approval", "strictest"]

PRE_APPROVED = ApprovalResult("pre_approved")
NEEDS_APPROVAL = ApprovalResult("needs_approval")
_ORDER = ("blocked", "needs_approval", "pre_approved")


def approval(sandbox: Sandbox, operation: Operation, path: object) -> ApprovalResult:
    """Return the seed's verdict on one operation: reading from the repository needs an approval.

    A path rule that says `ask` needs one too. What is no path, or another session's, is blocked.
    """
    if not isinstance(path, str):
        return ApprovalResult("blocked", "the path is missing")
    try:
        if operation in (Operation.LIST, Operation.READ) and sandbox.resolve(path) == "/":
            return PRE_APPROVED  # everyone may see the zones' names
        check = sandbox.check_permission(operation, path)
    except SandboxError as error:
        return ApprovalResult("blocked", error.message)
    if not check.allowed:
        return ApprovalResult("needs_approval" if check.requires_approval else "blocked", check.reason)
    if operation is Operation.READ and check.zone is Zone.REPO:
        return NEEDS_APPROVAL
    return PRE_APPROVED


def strictest(*results: ApprovalResult) -> ApprovalResult:
    """Return the first of the results that lets the least through."""
    return min(results, key=lambda result: _ORDER.index(result.status))
