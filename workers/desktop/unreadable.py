"""Whose doing is it that a metric raises: the policy's, whose file it cannot read, or the evaluator's own?

OSWorld's metrics bear most nonsense; some raise on a file that is none of its kind.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import requests

from legato_rl.desktop import DesktopFailure

OUR_FILES = frozenset({"cloud_file", "googledrive_file"})
"""Kinds of results and expectations that are files of our side."""
NO_SUCH_FILE = frozenset(
    {
        *("UnicodeDecodeError", "JSONDecodeError", "BadZipFile", "ReadError", "PackageNotFoundError"),
        *("ParseError", "XMLSyntaxError", "ParserError", "EmptyDataError", "UnidentifiedImageError", "InvalidFileException"),
    }
)
"""Names of what readers raise of bytes that are no such file: text, JSON, zip, tar, Office, XML, CSV, pictures, sheets."""

READ_HERE: dict[str | None, tuple[type[Exception], ...]] = {"content_from_vm_file": (ValueError, IndexError)}
"""Kinds of results whose getter reads a file of the guest's and nothing else, and what it raises of nonsense or an empty
one."""


def is_files_doing(
    metric: Callable[..., Any],
    states: tuple[Any, ...],
    kinds: tuple[str | None, ...],
    options: Mapping[str, Any],
    error: Exception,
) -> bool:
    """Whether `error`, which `metric(*states, **options)` raised, comes of a file that the guest delivered.

    `kinds` are those of the states. With a second file beside it the metric is asked of that file alone: where it grades
    that, the guest's file is at fault. Without one the error must be of those that readers raise.
    """
    files = [isinstance(state, (str, list)) and _delivered(state) for state in states]
    guests = [i for i, there in enumerate(files) if there and kinds[i] not in OUR_FILES]
    if not guests:
        return False
    if len(states) == 2 and all(files):
        return any(_grades(metric, states[1 - i], options) for i in guests)
    return cannot_be_read(error)


def cannot_be_read(error: Exception, kind: str | None = None) -> bool:
    """Whether a reader raised it, of bytes that are no such file. `kind`: of the result whose getter raised it."""
    if isinstance(error, requests.RequestException):
        return False  # what it cannot read is no file of the guest's
    if kind in READ_HERE and isinstance(error, READ_HERE[kind]):
        return True
    return any(each.__name__ in NO_SUCH_FILE for each in type(error).__mro__)


def _delivered(state: str | list[Any]) -> bool:
    """Whether a state is the path of a file here, or a list of such."""
    paths = state if isinstance(state, list) else [state]
    return bool(paths) and all(isinstance(path, str) and os.path.isabs(path) and os.path.isfile(path) for path in paths)


def _grades(metric: Callable[..., Any], file: Any, options: Mapping[str, Any]) -> bool:
    try:
        metric(file, file, **options)
    except DesktopFailure:
        raise
    except Exception:
        return False
    return True
