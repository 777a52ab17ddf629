"""How many examples the tests try: hypothesis profiles, chosen with HYPOTHESIS_PROFILE."""

import os

from hypothesis import HealthCheck, settings

EFFORT = {
    "suite": 0.35,  # all tests within a quarter of an hour on two cores
    "soak": 20.0,
    "interpreted": 0.2,  # with the JIT off
}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")


def load_profile() -> None:
    """Register all profiles and load the chosen one."""
    for name, effort in EFFORT.items():
        settings.register_profile(
            name,
            deadline=None,
            print_blob=True,
            max_examples=round(100 * effort),
            suppress_health_check=[HealthCheck.too_slow],  # a busy machine is not the fault of the strategy
        )
    settings.load_profile(PROFILE)


def examples(usual: int) -> settings:
    """Decorate a test that usually needs a number other than 100; a bare `max_examples` would ignore the profile."""
    return settings(max_examples=max(1, round(usual * EFFORT[PROFILE])))
