"""Number ranges as regular expressions, for decoding grammars.

They match the shortest form only: no leading zeros, no plus sign, no negative zero.
"""

from __future__ import annotations

import functools
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


@functools.lru_cache(256)
def integer_range(low: int, high: int) -> str:
    """Return a regular expression of exactly the integers from ``low`` to ``high``."""
    parts: list[str] = []
    if low < 0:
        parts += [f'-{part}' for part in _naturals(max(1, -high), -low)]
    if high >= 0:
        parts += _naturals(max(0, low), high)
    return '|'.join(parts)


@functools.lru_cache(256)
def decimal_range(low: float, high: float, decimals: int) -> str:
    """Return a regular expression of exactly the numbers from ``low`` to ``high``.

    Args:
        low: Least number, with at most ``decimals`` decimals.
        high: Greatest number, likewise.
        decimals: Digits that a number may have after the point; it may have fewer, and trailing
            zeros.
    """
    least, greatest = Decimal(repr(low)), Decimal(repr(high))
    parts: list[str] = []
    if least < 0:
        smallest = Decimal(1).scaleb(-decimals)  # what keeps negative zero out
        parts += [f'-{part}' for part in _magnitudes(max(smallest, -greatest), -least, decimals)]
    if greatest >= 0:
        parts += _magnitudes(max(Decimal(0), least), greatest, decimals)
    return '|'.join(parts)


def _magnitudes(low: Decimal, high: Decimal, decimals: int) -> list[str]:
    """Return expressions of the unsigned numbers from ``low`` to ``high``."""
    first, last = int(low), int(high)
    if first == last:
        return _with_fraction(str(first), low - first, high - first, decimals)
    parts = _with_fraction(str(first), low - first, Decimal(1), decimals)
    if last - first > 1:
        whole = '|'.join(_naturals(first + 1, last - 1))
        parts.append(f'({whole})(\\.[0-9]{{1,{decimals}}})?')
    return parts + _with_fraction(str(last), Decimal(0), high - last, decimals)


def _with_fraction(whole: str, low: Decimal, high: Decimal, decimals: int) -> list[str]:
    """Return expressions of ``whole`` followed by a fraction from ``low`` to ``high``."""
    parts = [whole] if low == 0 else []
    for digits in range(1, decimals + 1):
        scale = 10**digits
        first = int((low * scale).to_integral_value(ROUND_CEILING))
        last = min(scale - 1, int((high * scale).to_integral_value(ROUND_FLOOR)))
        if first <= last:
            parts += [
                f'{whole}\\.{part}'
                for part in _fixed_width(f'{first:0{digits}}', f'{last:0{digits}}')
            ]
    return parts


def _naturals(low: int, high: int) -> list[str]:
    """Return expressions of the integers from ``low`` >= 0 to ``high``."""
    parts: list[str] = []
    for width in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (width - 1) if width > 1 else 0)
        last = min(high, 10**width - 1)
        if first <= last:
            parts += _fixed_width(str(first), str(last))
    return parts


def _fixed_width(first: str, last: str) -> list[str]:
    """Return expressions of the digit strings from ``first`` to ``last``, of equal length."""
    if first == last:
        return [first]
    width = len(first)
    common = 0
    while first[common] == last[common]:
        common += 1
    prefix, rest = first[:common], width - common - 1
    low, high = int(first[common]), int(last[common])
    parts: list[str] = []
    if rest and set(first[common + 1 :]) != {'0'}:
        parts += [
            prefix + str(low) + part for part in _fixed_width(first[common + 1 :], '9' * rest)
        ]
        low += 1
    tail: list[str] = []
    if rest and set(last[common + 1 :]) != {'9'}:
        tail = [prefix + str(high) + part for part in _fixed_width('0' * rest, last[common + 1 :])]
        high -= 1
    if low <= high:
        digit = str(low) if low == high else f'[{low}-{high}]'
        parts.append(prefix + digit + '[0-9]' * rest)
    return parts + tail
