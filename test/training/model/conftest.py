"""The fixture that tests of the model share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from timely_llm_ros.training.model.tokenizer import make_tokenizer, vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@pytest.fixture(scope='session')
def tokenizer() -> Tokenizer:
    return make_tokenizer(vocabulary())
