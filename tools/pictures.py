"""``python -m tools.pictures``: the pictures of the window and of the demo that the pages show.

The window plays the recorded runs of a demo (``make demo``) in a headless Chromium. Every picture
is what the page showed at that moment of the runs; nothing is drawn by hand.
"""

from __future__ import annotations

import argparse
import base64
import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from benchmarks.common.browser import Browser

IMAGES = Path(__file__).resolve().parent.parent / 'docs' / 'images'
FRAMES_PER_S = 2
LOADED = (
    'new Promise((done) => { const wait = () => window.fleetWindow?.player && '
    'document.querySelector("[data-robot]") ? done() : setTimeout(wait, 50); wait(); })'
)
MOMENT = (
    'new Promise((done) => {{ const player = window.fleetWindow.player; player.playing = false; '
    'player.seek({at_s}); setTimeout(() => requestAnimationFrame(() => '
    'requestAnimationFrame(done)), 150); }})'
)
"""Brings the runs to a moment and waits until the page, which draws ten times a second, has it."""


def _show(browser: Browser, address: str, width: int, height: int) -> None:
    browser.size(width, height, mobile=width < 600)
    browser.call('Page.navigate', url='about:blank')
    browser.call('Page.navigate', url=address)
    browser.run(LOADED)
    # A picture has no use for scroll bars.
    browser.run('document.documentElement.style.scrollbarWidth = "none"; 0')


def _picture(browser: Browser, first: str = 'html', last: str = 'html') -> Image.Image:
    """Return the page from the top of one element to the end of another, at most the screen."""
    box = browser.run(
        f'(() => {{ const top = document.querySelector("{first}").getBoundingClientRect(), '
        f'end = document.querySelector("{last}").getBoundingClientRect(); '
        'const y = Math.max(0, top.y + scrollY - 8); return { x: 0, y, width: innerWidth, '
        'height: Math.min(innerHeight, end.bottom + scrollY + 8 - y), scale: 1 }; })()'
    )
    taken = browser.call('Page.captureScreenshot', clip=box, captureBeyondViewport=True)
    return Image.open(io.BytesIO(base64.b64decode(taken['data']))).convert('RGB')


def _save(picture: Image.Image, path: Path) -> None:
    picture.save(path, quality=85, method=6)
    print(f'{path}: {picture.width} x {picture.height}, {path.stat().st_size / 1000:.0f} kB')


def take(browser: Browser, address: str, options: argparse.Namespace) -> None:
    """Take all pictures of a window that plays recorded runs."""
    moment = MOMENT.format(at_s=options.at)
    for name, width, height in (('window', 1440, 900), ('window_phone', 390, 844)):
        _show(browser, address, width, height)
        browser.run(moment)
        if width > 600:
            # A robot's plan, segment by segment.
            browser.run('document.querySelector("[data-robot=drone_3] button")?.click(); 0')
            browser.run(moment)
        _save(_picture(browser), options.out / f'{name}.webp')
    _show(browser, address, 1000, 1100)
    browser.run(moment)
    # The timeline alone, so close that single segments can be read.
    browser.run(
        'for (const button of document.querySelectorAll("#timeline button")) '
        'if (button.textContent === "+") for (let n = 0; n < 4; n++) button.click(); 0'
    )
    browser.run(moment)
    _save(_picture(browser, '#timeline', '#timeline'), options.out / 'loop.webp')

    _show(browser, address, 1000, 700)
    frames = []
    for number in range(round(options.seconds * FRAMES_PER_S)):
        browser.run(MOMENT.format(at_s=options.begin + number / FRAMES_PER_S))
        frames.append(_picture(browser, '#cards', '#worlds'))
    path = options.out / 'demo.webp'
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=1000 // FRAMES_PER_S, loop=0,
        quality=options.quality, method=4,
    )  # fmt: skip
    print(f'{path}: {len(frames)} frames, {path.stat().st_size / 1000:.0f} kB')


def main() -> int:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description='Take the pictures of the window and the demo.')
    parser.add_argument('traces', nargs='+', metavar='TRACE', help='runs of one demo')
    parser.add_argument('--out', type=Path, default=IMAGES, help='folder for them')
    parser.add_argument('--at', type=float, default=26.0, help='moment of the still pictures (s)')
    parser.add_argument('--begin', type=float, default=4.0, help='begin of the animated one (s)')
    parser.add_argument('--seconds', type=float, default=60.0, help='length of the animated one')
    parser.add_argument('--quality', type=int, default=42, help='of the animated one, 0 to 100')
    options = parser.parse_args()
    program = Path(sys.executable).with_name('timely-llm')
    window = subprocess.Popen(
        [program, 'window', '--port', '0', *options.traces], stdout=subprocess.PIPE, text=True
    )
    try:
        address = (window.stdout or sys.exit('window: no output')).readline().split()[1]
        with tempfile.TemporaryDirectory() as profile:
            browser = Browser(Path(profile))
            try:
                take(browser, address, options)
            finally:
                browser.close()
    finally:
        window.terminate()
        window.wait()
    return 0


if __name__ == '__main__':
    sys.exit(main())
