"""Numbers in the sentences of studies."""

import pytest

from sightline.exploration.words import percent


@pytest.mark.parametrize(("share", "digits", "words"), [(0.5, 0, "50 %"), (0.2083, 1, "20.8 %"), (-0.002, 1, "-0.2 %")])
def test_share_in_per_cent(share, digits, words):
    assert percent(share, digits) == words
