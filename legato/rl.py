"""The same names under the product's name: `from legato.rl import collect, PolicyConfig`."""

from legato_rl import *  # noqa: F403
from legato_rl import __all__, __version__  # noqa: F401
