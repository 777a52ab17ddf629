"""A share of every campaign, small enough for the suite."""

from pathlib import Path

import pytest

from tests.campaign.campaign import chance
from tests.campaign.modules import MODULES
from tests.campaign.processes import campaign_of

SEED = 2026


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_wrong_and_nothing_is_lost(name: str, tmp_path: Path) -> None:
    campaign = campaign_of(name)
    assert campaign.name == name
    reason = campaign.missing() or ("" if campaign.share else "too long for the suite")
    if reason:
        pytest.skip(reason)
    with campaign.scene(tmp_path) as scene:
        possible = campaign.count(scene) if campaign.count else campaign.goal
        assert possible >= campaign.goal
        for number in range(0, possible, max(1, possible // campaign.share)):
            campaign.trial(scene, chance(name, SEED, number), number)
