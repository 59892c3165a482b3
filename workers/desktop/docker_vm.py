"""How are OSWorld's own VM containers kept in order? Named, labelled, on ports that Docker chose, and wholly removed.

OSWorld's docker provider scans for free ports under one lock for the machine (10 s, then an error), gives its containers
no name, and leaves a volume behind with each. Its instance is adjusted here; a later version that has other insides is
left as it is.
"""

from __future__ import annotations

from typing import Any

from legato_rl.workers.desktop.owners import labels, reap, reap_others

PORTS = {5000: "server_port", 9222: "chromium_port", 8006: "vnc_port", 8080: "vlc_port"}
"""The guest's ports, and where the provider keeps what they are on the host."""


def keep_in_order(provider: Any, name: str, ram_gb: int, cpus: int) -> None:
    """Adjust an OSWorld provider that runs VMs in containers; any other is left alone."""
    needed = ("client", "environment", "lock_file", *PORTS.values())
    if not all(hasattr(provider, attribute) for attribute in needed):
        return
    provider.environment.update(RAM_SIZE=f"{ram_gb}G", CPU_CORES=str(cpus))
    # No port is chosen under it any more: every desktop has a lock of its own.
    provider.lock_file = provider.lock_file.with_name(f"legato-rl-{name}.lck")
    provider._get_available_port = lambda start: start
    usual = provider.client.containers
    for left in reap_others(provider.client):
        provider.lock_file.with_name(f"legato-rl-{left}.lck").unlink(missing_ok=True)

    class Containers:
        """The engine's containers, of which `run` makes ours."""

        def run(self, image: str, **options: Any) -> Any:
            reap(engine, name=name)
            options["ports"] = dict.fromkeys(PORTS, ("127.0.0.1", None))
            container = usual.run(image, name=f"legato-rl-{name}", labels=labels(name), **options)
            provider.container = container
            container.reload()
            for port, attribute in PORTS.items():
                setattr(provider, attribute, int(container.ports[f"{port}/tcp"][0]["HostPort"]))
            return container

        def __getattr__(self, attribute: str) -> Any:
            return getattr(usual, attribute)

    class Client:
        containers = Containers()

        def __getattr__(self, attribute: str) -> Any:
            return getattr(engine, attribute)

    def stop(*args: Any, **kwargs: Any) -> None:
        reap(engine, name=name)
        provider.container = None
        provider.lock_file.unlink(missing_ok=True)

    engine = provider.client
    provider.client = Client()
    provider.stop_emulator = stop
