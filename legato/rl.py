"""The same names under the product's name: `from legato.rl import collect, PolicyConfig`."""

import sys

import legato_rl

# One module under two names: nothing is imported before it is asked for, and no name can differ.
sys.modules[__name__] = legato_rl
