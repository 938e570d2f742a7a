"""A headless Chromium that tests look into, by its own protocol over a pipe."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from support.ros.programs import LIMIT_S, wait_for

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser')


class Chromium:
    """A browser with one page."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None
        read_here, write_there = os.pipe()
        read_there, write_here = os.pipe()
        # The browser's ends must be 3 and 4.
        redirect = f'exec "$0" "$@" 3<&{read_there} 4>&{write_there}'
        self._log = (folder / 'chromium.log').open('wb')
        self._process = subprocess.Popen(
            ['bash', '-c', redirect, CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu',
             '--remote-debugging-pipe', '--no-first-run', '--disable-extensions',
             f'--user-data-dir={folder / "profile"}', 'about:blank'],
            pass_fds=(read_there, write_there), stderr=self._log, stdout=self._log,
        )  # fmt: skip
        os.close(read_there)
        os.close(write_there)
        self._in, self._out = os.fdopen(write_here, 'wb', 0), os.fdopen(read_here, 'rb', 0)
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._rest = b''
        self.messages: list[str] = []
        """What the page and the browser wrote on the console, those about the network left out."""
        self.network: list[str] = []
        """What the browser wrote of requests that failed."""
        target = self._call('Target.getTargets')['targetInfos']
        page = next(one['targetId'] for one in target if one['type'] == 'page')
        attached = self._call('Target.attachToTarget', targetId=page, flatten=True)
        self._session = attached['sessionId']
        for domain in ('Runtime', 'Log', 'Page'):
            self.call(f'{domain}.enable')

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol on the page; return its result."""
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self._numbers)
        message = {'id': number, 'method': method, 'params': parameters}
        if session is not None:
            message['sessionId'] = session
        self._in.write(json.dumps(message).encode() + b'\0')
        while True:
            answer = self._read()
            if answer.get('id') == number:
                assert 'error' not in answer, (method, answer['error'])
                return answer['result']

    def _read(self) -> dict[str, Any]:
        while b'\0' not in self._rest:
            piece = self._out.read(1 << 16)
            assert piece, 'the browser has ended'
            self._rest += piece
        text, _, self._rest = self._rest.partition(b'\0')
        message: dict[str, Any] = json.loads(text)
        match message.get('method'):
            case 'Runtime.consoleAPICalled':
                self.messages.append(json.dumps(message['params']['args']))
            case 'Runtime.exceptionThrown':
                self.messages.append(json.dumps(message['params']['exceptionDetails']))
            case 'Log.entryAdded':
                entry = message['params']['entry']
                told = self.network if entry['source'] == 'network' else self.messages
                told.append(entry['text'])
            case _:
                pass
        return message

    def open(self, address: str, width: int = 1440, height: int = 900) -> None:
        """Show an address in a window of that size (pixels)."""
        self.resize(width, height)
        self.call('Page.navigate', url=address)

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page another size (pixels)."""
        self.call(
            'Emulation.setDeviceMetricsOverride',
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page, awaited; None where it cannot be had."""
        told = self.call(
            'Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True
        )
        return told['result'].get('value')

    def wait(self, expression: str, limit_s: float = LIMIT_S) -> Any:
        """Return an expression's first value that is true."""
        return wait_for(lambda: self.evaluate(expression), expression, limit_s)

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.evaluate(f'document.querySelector({selector!r})?.innerText ?? ""'))

    def click(self, selector: str) -> None:
        """Click an element."""
        self.evaluate(f'document.querySelector({selector!r}).click()')

    def picture(self, path: Path) -> None:
        """Write what the page shows as PNG."""
        data = self.call('Page.captureScreenshot', format='png')['data']
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """End it."""
        self._in.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._out.close()
        self._log.close()
