"""What is said of a command line that cannot be read? One sentence, as of every other wrong input, and where help is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from legato_rl.errors import ExitCode


class UsageSentence(click.ClickException):
    """A command line that cannot be read, in one sentence."""

    exit_code = int(ExitCode.BAD_INPUT)

    def show(self, file: IO[Any] | None = None) -> None:
        """As every error of this project is shown; click's own takes three lines."""
        click.echo(f"error: {self.message}", file=file, err=True)


class Sentences(click.Group):
    """A group that says in one sentence what it, or a command of it, cannot read."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        with _in_one_sentence():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_sentence(ctx):
            return super().invoke(ctx)


@contextmanager
def _in_one_sentence(group: click.Context | None = None) -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        # One that shows itself otherwise is no fault, but the help of a group whose command was not given.
        if type(error).show is not click.UsageError.show:
            raise
        raise UsageSentence(_sentence(error, group)) from None


def _sentence(error: click.UsageError, group: click.Context | None) -> str:
    # Of an option without its value click does not know the command; the group does.
    path = error.ctx.command_path if error.ctx else f"{group.command_path} {group.invoked_subcommand}" if group else ""
    near = getattr(error, "possibilities", None)
    text = " ".join((error.message if near else error.format_message()).split()).rstrip(".")
    meant = f" (did you mean {' or '.join(sorted(near))}?)" if near else ""
    return f"{text[:1].lower()}{text[1:]}{meant}" + (f"; try {path} --help" if path else "")
