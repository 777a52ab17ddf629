"""The command line: parse, call the library, print. Importing it must stay cheap, so that `--help` answers at once."""

from dask_rac.cli.entry import main

__all__ = ["main"]
