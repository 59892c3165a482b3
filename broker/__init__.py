"""What exists once per run: the broker, the policy-proxy, the sink.

This folder installs as ``legato_rl.broker``; under its bare name it would be a second copy of every module.
"""

if __name__ != "legato_rl.broker":
    raise ImportError(f"import legato_rl.broker, not {__name__}")
