"""`legato-rl fake-policy`: the bundled policy server, in the foreground."""

from __future__ import annotations

import signal
from typing import Any

import click

from legato_rl.errors import ConfigError, ExitCode
from legato_rl.fake.policy_config import FakePolicyConfig
from legato_rl.fake.server import FakePolicyServer


@click.command("fake-policy", context_settings={"show_default": True})
@click.option("--port", type=int, default=0, help="Port to listen on; 0 takes a free one.")
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--model", metavar="NAME", help="The only model name to accept.  [default: any]")
@click.option("--api-key", metavar="KEY", help="Key to ask for.  [default: none]")
@click.option("--skill", type=float, default=0.7, help="Share of good moves.")
@click.option("--malformed", type=float, default=0.05, help="Share of answers that cannot be parsed.")
@click.option("--latency", type=float, metavar="S", default=0.0, help="Mean seconds of a request.")
@click.option("--tail", type=float, metavar="SIGMA", default=0.0, help="Spread of the latency; 1 has a long tail.")
@click.option("--tokens-per-second", type=float, metavar="N", help="Further seconds by length of the answer.")
@click.option("--concurrency", type=int, metavar="N", default=64, help="Requests at once; others wait in order.")
@click.option("--max-queued", type=int, metavar="N", help="Requests that may wait; more get a 503.  [default: any]")
@click.option("--cache-tokens", type=int, metavar="N", default=1_000_000, help="Tokens of the prefix cache; 0 is off.")
@click.option(
    "--no-cache-report", "report_cached", flag_value=False, default=True, show_default=False, help="Tell no cached tokens."
)
@click.option("--max-model-len", type=int, metavar="N", default=131_072, help="Tokens of prompt and answer together.")
@click.option("--max-images", type=int, metavar="N", help="Images per prompt.  [default: any]")
@click.option(
    "--no-token-ids", "token_ids", flag_value=False, default=True, show_default=False, help="Refuse `return_token_ids`."
)
@click.option("--reasoning-parser", is_flag=True, help="Move thoughts out of the content.")
@click.option("--logprobs-mode", type=click.Choice(["raw", "processed"]), default="raw", help="As vLLM's.")
@click.option("--sglang", is_flag=True, help="Answer under SGLang's names.")
@click.option("--weight-version", metavar="STR", help="Version of the weights to tell (with --sglang).")
@click.option("--fail", type=float, metavar="RATE", default=0.0, help="Share of requests answered 500.")
@click.option("--keep-alive", type=float, metavar="S", default=5.0, help="Seconds an idle connection is kept.")
@click.option("--seed", type=int, metavar="N", default=0, help="Of latencies and failures.")
def fake_policy(**options: Any) -> None:
    """Serve a small policy that plays the fake desktop, until it is ended.

    The first line printed is its URL, to be given to --policy-url.
    """
    server = FakePolicyServer(FakePolicyConfig(**options))
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # before any thread starts, so that sigwait gets them
    try:
        url = server.start()
    except OSError as error:
        raise ConfigError(
            f"port is {options['port']}: {options['host']} cannot be listened on ({error.strerror}); choose another"
        ) from None
    click.echo(url)
    ended_by = signal.sigwait(signals)
    server.close()
    if ended_by == signal.SIGINT:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
