"""`python -m legato_rl`: the command line."""

from legato_rl.cli.main import legato_rl

if __name__ == "__main__":
    legato_rl()
