"""The site of the documentation has every page once; ``make docs`` builds it and checks links."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / 'mkdocs.yml').read_text(encoding='utf-8').partition('\nnav:')[2]
    listed = re.findall(r'- (\S+\.md)$', nav, re.MULTILINE)
    docs = ROOT / 'docs'
    pages = {
        str(page.relative_to(docs))
        for page in docs.rglob('*.md')
        if 'robot_package' not in page.parts
    }
    assert sorted(listed) == sorted({*pages, 'index.md'})
