from __future__ import annotations

import numpy as np
import pytest

from timely_llm_ros.errors import ConfigurationError
from timely_llm_ros.prediction.lengths.length_bins import LengthBins

BINS = LengthBins()


def test_quantiles_are_upper_edges() -> None:
    mass = np.array([[0.5, 0.3, 0.2] + [0.0] * 7, [0.0] * 9 + [1.0]])
    assert BINS.quantile(mass, 0.5) == pytest.approx([51.2, 512])
    assert BINS.quantile(mass, 0.8) == pytest.approx([102.4, 512])
    assert BINS.quantile(mass, 1.0) == pytest.approx([153.6, 512])
    with pytest.raises(ConfigurationError, match=r'share 0\.0'):
        BINS.quantile(mass, 0.0)


def test_bins_that_cannot_be() -> None:
    with pytest.raises(ConfigurationError, match='0 bins'):
        LengthBins(0, 512)
    with pytest.raises(ConfigurationError, match='no more bins than tokens'):
        LengthBins(10, 9)
    with pytest.raises(ConfigurationError, match='remaining length -1'):
        BINS.index([3, -1])
