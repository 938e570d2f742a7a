"""The scheduling policies of other systems, served and measured as ours are."""

from benchmarks.field.policies import FIELD, BoostedYoungFirst

OURS = 'ours'
"""What tables call our own way."""

LENT_OURS = ' + lookahead'
"""What is added to the name of a policy that is served under our admission."""

__all__ = ['FIELD', 'LENT_OURS', 'OURS', 'BoostedYoungFirst']
