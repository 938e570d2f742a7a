"""A hook of mkdocs: the README is the site's first page, and links that leave ``docs`` lead on.

Pages are written to be read in the repository. What they link to beside ``docs`` becomes a part of
the site below ``source/``; a link to a folder loses its link.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
_NOTE = re.compile(r'\A<!--.*?-->\s*', re.DOTALL)
_LINK = re.compile(r'(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)')


def site_name(path: str) -> str:
    """Return where a file of the repository is in the site."""
    if path == 'README.md':
        return 'index.md'
    if path.startswith('docs/'):
        return path.removeprefix('docs/')
    # mkdocs leaves out what begins with a dot.
    return f'source/{path}'.replace('/.', '/dot-')


def source_name(name: str) -> str:
    """Return which file of the repository a page of the site is."""
    if name == 'index.md':
        return 'README.md'
    if not name.startswith('source/'):
        return f'docs/{name}'
    return name.replace('/dot-', '/.').removeprefix('source/')


def target_of(page: str, link: str) -> str:
    """Return the file of the repository that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README and all that pages link to outside ``docs``."""
    todo = ['README.md', *(f'docs/{file.src_uri}' for file in files.documentation_pages())]
    known = set(todo)
    files.append(File.generated(config, 'index.md', abs_src_path=str(ROOT / 'README.md')))
    for page in todo:
        for _, _, link, _ in _LINK.findall((ROOT / page).read_text(encoding='utf-8')):
            target = target_of(page, link)
            if target in known or target.startswith('docs/') or not (ROOT / target).is_file():
                continue
            known.add(target)
            files.append(File.generated(config, site_name(target), abs_src_path=str(ROOT / target)))
            if target.endswith('.md'):
                todo.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have every link lead to where its target is in the site, and the title come first."""
    del config, files
    here = page.file.src_uri
    source = source_name(here)

    def lead(found: re.Match[str]) -> str:
        picture, text, link, anchor = found.groups()
        target = target_of(source, link)
        if not (ROOT / target).exists():
            return found[0]
        if (ROOT / target).is_dir():
            return str(text)
        place = posixpath.relpath(site_name(target), posixpath.dirname(here) or '.')
        return f'{picture}[{text}]({place}{anchor or ""})'

    # mkdocs takes a page's title from a heading that nothing stands before.
    return _LINK.sub(lead, _NOTE.sub('', markdown))
