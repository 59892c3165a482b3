"""What stands in for the heavy libraries of OSWorld's evaluators? Importing this makes those that are missing importable.

Anything may be imported from a stand-in and named; whoever calls it is told which library is not installed. So the real
`desktop_env` imports with a handful of small packages, and an evaluator that does need a missing one fails loudly.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

LIBRARIES = frozenset(
    {
        *("acoustid", "borb", "bs4", "cv2", "dashscope", "docx", "easyocr", "fastdtw", "fitz", "formulas"),
        *("google", "imagehash", "librosa", "mutagen", "odf", "openai", "openpyxl", "pandas", "pdfplumber"),
        *("pptx", "pydrive", "pypdf", "PyPDF2", "rapidfuzz", "scipy", "skimage", "xmltodict", "yaml"),
    }
)


class _Missing(type):
    """Of a class that stands for anything in a missing library: its attributes are such classes, and it cannot be called."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise ImportError(f"{cls.__name__} is a stand-in: its library is not installed")

    def __getitem__(cls, item: object) -> Any:
        return cls

    def __or__(cls, other: object) -> Any:  # type: ignore[override]
        return cls

    __ror__ = __or__  # type: ignore[assignment]


def _stand_in(name: str) -> Any:
    return _Missing(name, (Exception,), {})


class _Library(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what nobody else found. Last in line, so an installed library is never stood in for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in LIBRARIES and (path is None or "." in name):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Library(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing is in it."""


def install() -> None:
    """Stand in for what is missing, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


install()
