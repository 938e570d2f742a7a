"""A headless Chromium by its DevTools pipe: opens pages, runs scripts, keeps what is logged."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 120.0


class Browser:
    """One browser with one page.

    Args:
        profile: A folder of its own.
    """

    def __init__(self, profile: Path) -> None:
        program = shutil.which('chromium') or shutil.which('chromium-browser')
        if program is None:
            raise SystemExit('chromium: expected it on the PATH (Debian: apt install chromium)')
        in_read, self._write = os.pipe()
        self._read, out_write = os.pipe()

        def pipes() -> None:
            # Chromium reads commands from descriptor 3 and writes answers to 4.
            saved = os.dup(in_read), os.dup(out_write)
            os.dup2(saved[0], 3)
            os.dup2(saved[1], 4)

        self._process = subprocess.Popen(
            [program, '--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe',
             '--no-first-run', f'--user-data-dir={profile}', 'about:blank'],
            preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(in_read)
        os.close(out_write)
        self._buffer = b''
        self._number = 0
        self._session: str | None = None
        self.logged: list[str] = []
        """Errors and warnings that the page or the browser wrote to the console."""
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        attached = self.call('Target.attachToTarget', targetId=target, flatten=True)
        self._session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Log'):
            self.call(f'{domain}.enable')

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command; return its answer."""
        self._number += 1
        command: dict[str, Any] = {'id': self._number, 'method': method, 'params': parameters}
        if self._session is not None:
            command['sessionId'] = self._session
        os.write(self._write, json.dumps(command).encode() + b'\0')
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            message = self._message()
            if message.get('id') == self._number:
                if 'error' in message:
                    raise SystemExit(f'{method}: {message["error"]}')
                return dict(message['result'])
        raise SystemExit(f'{method}: no answer within {LIMIT_S:g} s')

    def _message(self) -> dict[str, Any]:
        while b'\0' not in self._buffer:
            part = os.read(self._read, 1 << 20)
            if not part:
                raise SystemExit(f'chromium ended with {self._process.wait()}')
            self._buffer += part
        first, _, self._buffer = self._buffer.partition(b'\0')
        message: dict[str, Any] = json.loads(first)
        found = message.get('params', {})
        match message.get('method'):
            case 'Runtime.exceptionThrown':
                self.logged.append(str(found['exceptionDetails'].get('text')))
            case 'Runtime.consoleAPICalled' if found['type'] in ('error', 'warning', 'assert'):
                self.logged.append(str(found['args']))
            case 'Log.entryAdded' if found['entry']['level'] in ('error', 'warning'):
                self.logged.append(str(found['entry']['text']))
        return message

    def size(self, width: int, height: int, *, ratio: float = 1.0, mobile: bool = False) -> None:
        """Set what the page sees as its screen."""
        self.call(
            'Emulation.setDeviceMetricsOverride',
            width=width, height=height, deviceScaleFactor=ratio, mobile=mobile,
        )  # fmt: skip

    def open(self, path: Path) -> float:
        """Open a file; return the time (s) until it is drawn and answers.

        From the begin of the navigation until the second frame after the page's scripts ran.
        """
        self.call('Page.navigate', url=f'file://{path}')
        return (
            float(
                self.run(
                    'new Promise((done) => { const wait = () => document.readyState === "complete" '
                    '? requestAnimationFrame(() => requestAnimationFrame(() => '
                    'done(performance.now()))) '
                    ': setTimeout(wait, 1); wait(); })'
                )
            )
            / 1000
        )

    def run(self, script: str) -> Any:
        """Run a script in the page; return its value, awaited."""
        answer = self.call(
            'Runtime.evaluate', expression=script, awaitPromise=True, returnByValue=True
        )
        if 'exceptionDetails' in answer:
            raise SystemExit(f'{script[:80]}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def picture(self, path: Path) -> None:
        """Save what the screen shows as PNG."""
        found = self.call('Page.captureScreenshot', format='png')
        path.write_bytes(base64.b64decode(found['data']))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
