"""What exists once per desktop.

This folder installs as ``legato_rl.workers``; under its bare name it would be a second copy of every module.
"""

if __name__ != "legato_rl.workers":
    raise ImportError(f"import legato_rl.workers, not {__name__}")
