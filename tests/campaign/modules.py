"""The campaigns, each a module of this package that defines CAMPAIGN."""

MODULES: tuple[str, ...] = ()
