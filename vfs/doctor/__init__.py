"""What this machine offers, what each lack disables, and the command that mends it."""

from vfs.doctor.check import Check, Status
from vfs.doctor.examine import Face, examine, require
from vfs.doctor.probe import Probe

__all__ = ["Check", "Face", "Probe", "Status", "examine", "require"]
