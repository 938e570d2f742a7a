from __future__ import annotations

import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins

BINS = LengthBins()


def test_bins_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match='0 bins'):
        LengthBins(0, 512)
    with pytest.raises(ConfigurationError, match='no more bins than tokens'):
        LengthBins(10, 9)
    with pytest.raises(ConfigurationError, match='remaining length -1'):
        BINS.index([3, -1])
