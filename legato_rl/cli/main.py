"""Which commands are there? `legato-rl …`, and the same as `legato rl …`. Each is imported when it is called."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from typing import Any

import click

from legato_rl._version import __version__
from legato_rl.cli.streams import guard_streams
from legato_rl.cli.usage import Sentences
from legato_rl.errors import ExitCode, LegatoError, Terminated

COMMANDS = {
    "collect": ("legato_rl.cli.collect:collect", "Run groups of rollouts and write them to a folder."),
    "serve": ("legato_rl.cli.serve:serve", "Keep desktops up for runs that are submitted, by collect --connect or a trainer."),
    "control": ("legato_rl.cli.control:control", "Look at a service and steer it: status, events, pause, resume, stop …"),
    "keygen": ("legato_rl.cli.keygen:keygen", "Draw the keys of a service that trainers elsewhere steer."),
    "probe": ("legato_rl.cli.probe:probe_command", "Show what a model server offers, and what training needs of it."),
    "export": ("legato_rl.cli.export:export", "Write a run's steps as training samples."),
    "profile": ("legato_rl.cli.profile:profile", "Sum a run up: statuses, time, errors, tokens."),
    "verify": ("legato_rl.cli.verify:verify", "Prove that a run folder is true, from its files alone."),
    "doctor": ("legato_rl.cli.doctor:doctor", "Say what this machine lacks for a run, and what to do."),
    "desktop": ("legato_rl.cli.desktop:desktop", "Make the image of the container desktop."),
    "reap": ("legato_rl.cli.desktop:reap", "Remove the containers that dead workers left."),
    "fake-policy": ("legato_rl.cli.fake_policy:fake_policy", "Serve the bundled model server, to try a set-up without a GPU."),
}
"""Where each command is, and its line of help: listing them imports none."""


class Commands(Sentences):
    """Imports a command when it is called, and turns the project's errors into one line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The list needs no command imported.
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        guard_streams()
        try:
            return super().invoke(ctx)
        except LegatoError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)
        except Terminated:
            click.echo("terminated", err=True)
            sys.exit(ExitCode.TERMINATED)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(ExitCode.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:
            traceback.print_exc()
            sys.exit(ExitCode.BUG)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="legato-rl")
def legato_rl() -> None:
    """Collect graded desktop rollouts for computer-use RL, true to the token."""


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="legato")
def legato() -> None:
    """The legato tools."""


legato.add_command(legato_rl, "rl")
