"""Is a run folder true? `verify` for the list of faults, `examine` for all that was found. DISK, reads only; no server.

Where the kernel has a function for it, that is asked: statuses by `decide`, prompts by `rebuild`, groups and summary by what
export and profile use. What each code means: docs/verify.md.
"""

from legato_rl.verify.folder import examine, verify
from legato_rl.verify.report import CODES, Fault, Report

__all__ = ["CODES", "Fault", "Report", "examine", "verify"]
