"""Speaks HTTP with one server: completions as a stream, its health, and what it serves.

Beyond the OpenAI-compatible API this needs what vLLM offers: prompts of token ids,
``return_token_ids``, and structured outputs with llguidance's grammars.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any

import httpx2

from timely_llm_ros.engines.openai.completions import (
    PROBE_TEXT,
    Chunk,
    ServedModel,
    check_probe,
    grammar_probe,
)
from timely_llm_ros.engines.openai.exchange import (
    HEADERS,
    beginning,
    events,
    exchange,
    retry_after_s,
    whole,
)
from timely_llm_ros.errors import (
    EngineError,
    ModelLoadError,
    RequestRefusedError,
    ServerBusyError,
    ServerLostError,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from timely_llm_ros.engines.openai.options import ServerOptions
    from timely_llm_ros.engines.texts import ServerTexts

_MOST_ERROR_BYTES = 4096
"""So much of a refusal is read, and of what a server says of its health."""

_REST_S, _MOST_REST_EVENTS = 1.0, 64
"""How long (s), and for how many events, a stream is read on after its end, so that its connection
can be used again."""


_OTHERWISE = 'for a server that has only chats set server_api to chat'


class ServerClient:
    """A connection pool to one server.

    Args:
        url: The server's address.
        options: Time limits and the model's name.
        api_key: The key, empty for none; it is in no message.
        tls: How the server's certificate is checked.
    """

    def __init__(
        self, url: str, options: ServerOptions, *, api_key: str, tls: ssl.SSLContext
    ) -> None:
        self.url = url
        self._options, self._key = options, api_key
        self._model = ''
        self._size = 0
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers=HEADERS | ({'Authorization': f'Bearer {api_key}'} if api_key else {}),
            # Cookies would grow with every answer, and so would every request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            verify=tls,
            timeout=httpx2.Timeout(options.silence_s, connect=options.connect_timeout_s, pool=None),
            limits=httpx2.Limits(max_keepalive_connections=64, keepalive_expiry=60.0),
            # The key must not go to a proxy that the environment happens to name.
            trust_env=False,
        )

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def check_health(self) -> None:
        """Ask whether the server is well, see :class:`Completions`."""
        async with self._exchange('/health') as response:
            if response.status_code != 200:
                hint = f'; {_OTHERWISE}' if response.status_code == 404 else ''
                raise ServerLostError(
                    f'/health answered {response.status_code}: expected 200{hint}'
                )
            # So that the connection can be used again.
            await whole(response, most=_MOST_ERROR_BYTES, limit_s=self._options.silence_s)

    async def check(self, texts: ServerTexts) -> ServedModel:
        """Check that the server serves what it should, and return what it serves.

        Raises:
            ServerLostError: It does not answer, or not yet.
            ModelLoadError: It serves something else, tokenises differently, lacks what is needed or
                does not accept the key.
        """
        await self.check_health()
        served = await self._find_model()
        self._model, self._size = served.name, texts.size
        probe = {'prompt': PROBE_TEXT, 'max_tokens': 1, 'temperature': 0}
        try:
            choice = await self._complete(probe)
        except ModelLoadError as err:
            raise ModelLoadError(f'{err}; {_OTHERWISE}') from err
        ids = choice.get('prompt_token_ids')
        expected = texts.encode(PROBE_TEXT, beginning=True)
        if ids is None:
            raise ModelLoadError(
                f'{self.url}: no prompt_token_ids in the answer; expected a server that knows '
                f'return_token_ids, such as vLLM 0.13 or later; {_OTHERWISE}'
            )
        if ids != expected:
            raise ModelLoadError(
                f'{self.url}: model {served.name!r} makes {_shortened(ids)} of a text of which the '
                f'tokenizer in {texts.path!r} makes {_shortened(expected)}: expected the same; set '
                'model_path to the folder of the model that is served'
            )
        await self._check_grammar(texts)
        return served

    async def tokens(
        self, body: dict[str, Any], *, session: str = ''
    ) -> AsyncGenerator[Chunk, None]:
        """Yield a completion's tokens as they come, see :class:`Completions`."""
        request = {'model': self._model, 'stream': True, 'return_token_ids': True, **body}
        path = '/v1/completions'
        async with aclosing(self._stream(path, request, self._chunk, session)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _stream(
        self, path: str, request: dict[str, Any], read: Callable[[bytes], Chunk], session: str
    ) -> AsyncGenerator[Chunk, None]:
        """Yield what ``read`` makes of an answer's events.

        Raises:
            ServerLostError: The server is gone, silent or in trouble, or the stream is cut.
            ServerBusyError: It does not take the request now.
            RequestRefusedError: It will never serve this request.
        """
        async with self._exchange(path, request, session) as response:
            if response.status_code != 200:
                raise await self._refusal(response)
            await self._require_stream(response)
            loop, silence_s = asyncio.get_running_loop(), self._options.silence_s
            async with aclosing(events(response)) as stream:
                until_s = loop.time() + silence_s
                while True:
                    try:
                        async with asyncio.timeout_at(until_s):
                            data = await anext(stream, None)
                    except TimeoutError as err:
                        # Whatever else it says, it does not get on.
                        raise ServerLostError(f'no token for {silence_s:g} s') from err
                    if data is None:
                        raise ServerLostError('the stream was cut')
                    if data == b'[DONE]':
                        break
                    chunk = read(data)
                    yield chunk
                    if chunk.finish:
                        break
                    if chunk.token_ids:
                        until_s = loop.time() + silence_s
                await _read_rest(stream)

    async def _require_stream(self, response: httpx2.Response) -> None:
        """Require that an answer is a stream of events.

        Raises:
            ServerLostError: It is not.
        """
        kind = response.headers.get('content-type', '')
        if kind.split(';')[0].strip().lower() != 'text/event-stream':
            said = await beginning(
                response, most=_MOST_ERROR_BYTES, limit_s=self._options.silence_s
            )
            raise ServerLostError(
                f'content type {kind[:40]!r}: expected text/event-stream; '
                f'it says: {_error_of(said)}'
            )

    def _chunk(self, data: bytes) -> Chunk:
        """Read one event.

        Raises:
            ServerLostError: It is an error, or not what was asked for.
        """
        wrong = f'{_text(data[:80])!r}: expected an event with token ids below {self._size}'
        try:
            event = json.loads(data)
            error = _error_text(event) if isinstance(event, dict) and 'error' in event else ''
            choice = {} if error else _first_choice(event)
            ids = choice.get('token_ids') or []
            # True and False are integers to Python, but not to us.
            fit = all(type(token) is int and 0 <= token < self._size for token in ids)
            finish = choice.get('finish_reason') or ''
        except (ValueError, TypeError, AttributeError, RecursionError, EngineError) as err:
            raise ServerLostError(wrong) from err
        if error:
            raise ServerLostError(error)
        if not fit:
            raise ServerLostError(wrong)
        if finish not in ('', 'stop', 'length'):
            raise ServerLostError(f'finish_reason {str(finish)[:80]!r}: expected stop or length')
        return Chunk(tuple(ids), finish)

    async def _find_model(self) -> ServedModel:
        answer = await self._ask('/v1/models')
        try:
            models = {item['id']: item for item in answer['data']}
            if not all(isinstance(name, str) for name in models):
                raise TypeError('a name that is no text')  # noqa: TRY301
        except (TypeError, KeyError) as err:
            raise ModelLoadError(
                f'{self.url}/v1/models: {str(answer)[:80]!r}: expected a list of models'
            ) from err
        # An adapter names its base model, which it stands before.
        bases = [item.get('parent') for item in models.values()]
        named = [name for name in models if name not in bases]
        name = self._options.model or (named[0] if len(named) == 1 else '')
        if name not in models:
            asked, there = repr(name) if name else 'one model', _shortened(sorted(models))
            raise ModelLoadError(f'{self.url} serves {there}: expected {asked}; see server_model')
        base = models.get(str(models[name].get('parent')), models[name])
        limit = base.get('max_model_len')
        return ServedModel(name, limit if type(limit) is int and limit > 0 else 1 << 30)

    async def _check_grammar(self, texts: ServerTexts) -> None:
        """Have it write a certain plan within a grammar."""
        help_text = (
            'expected structured outputs with llguidance grammars: start it by "timely-llm serve", '
            'or vllm serve with --structured-outputs-config \'{"backend":"guidance"}\''
        )
        try:
            choice = await self._complete(grammar_probe(texts))
        except ModelLoadError as err:
            raise ModelLoadError(f'{err}; {help_text}') from err
        ids = choice.get('token_ids') or ()
        if not all(type(token) is int and 0 <= token < self._size for token in ids):
            raise ModelLoadError(
                f'{self.url}: {_shortened(ids)}: expected token ids below {self._size}'
            )
        check_probe(self.url, ids, texts, help_text)

    async def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the first choice of a completion that is not streamed."""
        body = {'model': self._model, 'return_token_ids': True, **body}
        return _first_choice(await self._ask('/v1/completions', body))

    async def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the JSON that the server answers.

        Raises:
            ServerLostError: The server is in trouble.
            ModelLoadError: It refuses the request, or answers no JSON.
        """
        async with self._exchange(path, body) as response:
            if response.status_code != 200:
                error = await self._refusal(response)
                raise error if isinstance(error, ServerLostError) else ModelLoadError(str(error))
            data = await whole(response, limit_s=self._options.silence_s)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as err:
            said = _text(data[:80])
            raise ModelLoadError(f'{self.url}{path}: {said!r}: expected JSON') from err

    @asynccontextmanager
    async def _exchange(
        self, path: str, body: dict[str, Any] | None = None, session: str = ''
    ) -> AsyncIterator[httpx2.Response]:
        """Ask something, with every failure as an error of ours that names the server.

        Raises:
            ServerLostError: The server is gone, silent or in trouble, or its answer is amiss.
        """
        limit_s = self._options.silence_s
        try:
            async with exchange(
                self._client, path, body, limit_s=limit_s, session=session
            ) as response:
                yield response
        except (httpx2.HTTPError, TimeoutError) as err:
            raise self._lost(err) from err
        except EngineError as err:
            text = str(err)
            if self._key and self._key in text:
                # A server may repeat what it was sent.
                text = text.replace(self._key, '(the key)')
            prefix = '' if text.startswith(self.url) else f'{self.url}: '
            text = prefix + _printable(text)
            if isinstance(err, ServerBusyError):
                raise ServerBusyError(text, err.retry_after_s) from err
            raise type(err)(text) from err

    async def _refusal(self, response: httpx2.Response) -> EngineError:
        """Return the error of an answer other than 200."""
        status = response.status_code
        if status in (401, 403):
            return RequestRefusedError(
                f'{self.url} answered {status}: expected it to accept the API key; see '
                'server_api_key_file'
            )
        said = await beginning(response, most=_MOST_ERROR_BYTES, limit_s=self._options.silence_s)
        text = f'{self.url} answered {status}: {_error_of(said)}'
        if status in (429, 503):
            return ServerBusyError(text, retry_after_s(response.headers.get('retry-after', '')))
        if status >= 500 or status in (408, 425):
            return ServerLostError(text)
        return RequestRefusedError(text)

    def _lost(self, err: httpx2.HTTPError | TimeoutError) -> ServerLostError:
        """Return the error of a transport that failed."""
        if isinstance(err, httpx2.ConnectTimeout):
            reason = f'no connection within {self._options.connect_timeout_s:g} s'
        elif isinstance(err, httpx2.TimeoutException | TimeoutError):
            reason = f'no answer for {self._options.silence_s:g} s'
        else:
            reason = str(err) or type(err).__name__
        return ServerLostError(f'{self.url}: {_printable(reason)[:300]}')


def _first_choice(answer: Any) -> dict[str, Any]:
    """Return the first choice of an answer.

    Raises:
        ModelLoadError: There is none.
    """
    try:
        choice = answer['choices'][0]
    except (KeyError, IndexError, TypeError) as err:
        raise ModelLoadError(f'answer {str(answer)[:80]!r}: expected a choice') from err
    if not isinstance(choice, dict):
        raise ModelLoadError(f'choice {str(choice)[:80]!r}: expected an object')
    return choice


def _error_text(answer: Any) -> str:
    """Return the message of an error, in whichever shape it comes."""
    error = answer.get('error', answer) if isinstance(answer, dict) else answer
    message = error.get('message', error) if isinstance(error, dict) else error
    return str(message)[:300]


def _error_of(said: bytes) -> str:
    """Return what an answer says is wrong."""
    try:
        return _error_text(json.loads(said))
    except (ValueError, RecursionError):
        return _text(said[:200])


async def _read_rest(stream: AsyncGenerator[bytes, None]) -> None:
    """Read a stream on to its end if that is near."""
    try:
        async with asyncio.timeout(_REST_S):
            for _ in range(_MOST_REST_EVENTS):
                if await anext(stream, None) is None:
                    return
    except (httpx2.HTTPError, TimeoutError, ServerLostError):
        return


def _text(data: bytes) -> str:
    return data.decode('utf-8', 'replace')


def _printable(text: str) -> str:
    """Return a text that cannot do anything to a terminal or a log."""
    return ''.join(char if char.isprintable() else ' ' for char in text)


def _shortened(ids: object) -> str:
    text = str(ids)
    return text if len(text) <= 60 else text[:60] + '...'
