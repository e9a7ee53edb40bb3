"""The audit log: every access on a chain that nobody can quietly change (seed 001; DESIGN, Audit log).

    recorder  ──►  journal  ──►  store          an access becomes a line, lines become a database
                      │             │
                    heads         query, export, prune, stats
                      │
                    verify                      works offline, from these files and the public key alone

Recording is fail-closed and ahead of the act: `Recorder.entry` returns when the row has reached the operating
system, or raises AuditUnavailableError, and then the access must not happen. What is slow to import
(`cryptography`, `sqlite_utils`) is imported by what needs it.
"""

from vfs.kernel.audit.entry import OPERATIONS, Actor, AuditEntry, AuditFilter
from vfs.kernel.audit.export import FORMATS, Format, Progress
from vfs.kernel.audit.journal import Durability
from vfs.kernel.audit.log import AuditLog
from vfs.kernel.audit.recorder import Recorder
from vfs.kernel.audit.stats import AuditStats
from vfs.kernel.audit.verify import Problem, VerifyReport, verify

__all__ = [
    "FORMATS",
    "OPERATIONS",
    "Actor",
    "AuditEntry",
    "AuditFilter",
    "AuditLog",
    "AuditStats",
    "Durability",
    "Format",
    "Problem",
    "Progress",
    "Recorder",
    "VerifyReport",
    "verify",
]
