"""Writes ``docs/results`` from ``benchmarks/results``.

    .venv/bin/python -m benchmarks.pages [--check] [PAGE ...]

The prose of a page is in ``benchmarks/pages/templates``, its tables are made by the module of its
name, its numbers come from the JSON files that the benchmarks wrote.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.pages.catalogue import FOLDER, PAGES, render


def main() -> None:
    """Write the pages named, or all of them."""
    parser = argparse.ArgumentParser(
        'python -m benchmarks.pages',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('pages', nargs='*', metavar='PAGE', help=f'of {", ".join(PAGES)}')
    parser.add_argument('--check', action='store_true', help='write nothing, fail if one differs')
    options = parser.parse_args()
    for name in options.pages:
        if name not in PAGES:
            parser.error(f'page {name!r}: expected one of {", ".join(PAGES)}')
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = []
    for name in options.pages or PAGES:
        path, text = FOLDER / f'{name}.md', render(name)
        if path.is_file() and path.read_text(encoding='utf-8') == text:
            continue
        stale.append(path.name)
        if not options.check:
            path.write_text(text, encoding='utf-8')
            print(path)
    if stale and options.check:
        sys.exit(f'{", ".join(stale)}: expected what `python -m benchmarks.pages` writes')


if __name__ == '__main__':
    main()
