"""The campaigns, each a module of this package that defines CAMPAIGN."""

MODULES: tuple[str, ...] = (
    "power",
    "ext4",
    "calls",
    "kills",
    "large_kills",
    "workers",
    "races",
    "damage",
    "fuzz",
    "recipes",
    "flaky",
    "objects",
    "hosts",
    "budgets",
)
