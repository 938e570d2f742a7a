"""Words whose full stop may not end a sentence, and words that begin one.

English in the first place, with the commonest of German, French and Spanish.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEVER_LAST = _words("""
    mr mrs ms mx messrs dr prof st mt ft gen col sgt capt lt cmdr maj rev hon sen rep gov pres
    vs cf e.g i.e viz esp mme mlle sra srta dra hr fr frl z.b d.h u.a bzw s.o vgl p.ex p.ej
""")
"""Titles and words that always have something behind them."""

BEFORE_NUMBERS = _words("""
    no nos nr vol vols fig figs tab eq eqs sec secs ch art p pp ed op ca approx max min ext apt
    rm jan feb mar apr jun jul aug sep sept oct nov dec str tel pt ser l ll n num abs kap bd
""")
"""Abbreviations where a number follows; otherwise most of them are words like any other."""

SOMETIMES_LAST = _words("""
    jr sr inc ltd corp co bros etc al dept univ assn ave blvd rd hwy est usw gmbh ph
""")
"""A sentence may end with them: the word that follows tells."""

MONTHS = _words("""
    Januar Februar März April Mai Juni Juli August September Oktober November Dezember
""")
"""In German a day's number has a full stop before them."""

SENTENCE_STARTERS = _words("""
    The A An This That These Those There Here It Its He She They We You I My His Her Their Our
    Your In On At By For From With Without To Of As If When While Where Why What Who Which How
    But And Or So Yet Then Thus Hence Also After Before During Since Until Once Although Though
    However Therefore Moreover Meanwhile Instead Still Now Today Yesterday Tomorrow Later
    Finally First Second Third Next Last Both Each Every Some Many Most Much All Any No Not
    Nobody Nothing One Two Three Is Are Was Were Do Does Did Can Could Will Would Should May
    Must Has Have Had Let Please See Note Yes Unlike Despite Because Perhaps Maybe Only Just
    Even More Der Die Das Ein Eine Er Sie Es Wir Ihr Im Am Auf Mit Und Aber Doch Dann Auch Wenn
    Als Le La Les Un Une Il Elle Ils Elles Nous Vous Je Ce Cette Mais Et Dans Pour El Los Las
    Una Ella Ellos Pero Y Entonces Su Sus
""")
"""Words that tell, behind an abbreviation, that a new sentence has begun."""
