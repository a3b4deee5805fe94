"""The state of a fleet has room for what there is, not for all that might ever be."""

import numpy as np
import pytest
from serving_scenarios import serving

from sightline.simulation.deployment import facts_of
from sightline.simulation.engine.state import new_fleet, with_rows


@pytest.fixture
def token_blocks():
    return facts_of(serving(model="llama-3.1-8b", plan={"framework": "sglang"}), 100_000)._replace(replicas=8)


def test_a_table_of_blocks_is_as_wide_as_the_longest_sequence(token_blocks):
    assert token_blocks.block_tokens == 1
    small, large = (with_rows(new_fleet([token_blocks]), [token_blocks], tokens) for tokens in (2_000, 10**9))
    assert small.table.shape[2] == 2_000
    assert large.table.shape[2] == token_blocks.context_tokens
    assert new_fleet([token_blocks]).table.nbytes < 1e6


def test_a_wider_table_has_what_was_written_to_it(token_blocks):
    fleet = with_rows(new_fleet([token_blocks]), [token_blocks], 3)
    fleet.table[2, 5] = 7, 8, 9
    wider = with_rows(fleet, [token_blocks], 6)
    assert wider.table[2, 5].tolist() == [7, 8, 9, 0, 0, 0]
    assert np.count_nonzero(wider.table) == 3
    assert with_rows(wider, [token_blocks], 4) is wider


def test_without_a_prefix_cache_no_blocks_are_listed(token_blocks):
    facts = token_blocks._replace(prefix_cache=False)
    fleet = new_fleet([facts])
    assert with_rows(fleet, [facts], 5_000) is fleet
