"""Every kind of step is described once, and the descriptions fit together."""

import pytest

from dask_rac.recipes.kinds import KINDS
from dask_rac.recipes.kinds.kind import Kind
from dask_rac.recipes.schema import STEPS

EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


def test_what_has_keys_has_behaviour() -> None:
    assert list(KINDS) == list(STEPS)


@EACH
def test_input_is_a_key_and_made_by_steps_with_an_output(kind: Kind) -> None:
    if kind.works_on is None:
        assert not {"vectors", "edges", "run"} & STEPS[kind.name].keys()
        return
    for given in filter(None, (kind.works_on, kind.instead)):
        key = STEPS[kind.name][given.key]
        assert key.result
        assert key.required == (not given.makers)
        assert all("output" in STEPS[maker] for maker in given.makers)
