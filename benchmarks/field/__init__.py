"""The scheduling policies of other systems, served and measured as ours are."""

from pathlib import Path

from benchmarks.field.policies import FIELD, BoostedYoungFirst

OURS = 'ours'
"""What tables call our own way."""

LENT_OURS = ' + lookahead'
"""What is added to the name of a policy that is served under our admission."""

PLUGIN = Path(__file__).parent / 'plugin'
"""By this on their path, programs find the rankings of the field as another package's policies."""

__all__ = ['FIELD', 'LENT_OURS', 'OURS', 'PLUGIN', 'BoostedYoungFirst']
