"""Speaks HTTP with one server: completions as a stream, its health, and what it serves.

Beyond the OpenAI-compatible API this needs what vLLM offers: prompts of token ids,
``return_token_ids``, and structured outputs with llguidance's grammars.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2

from timely_llm_ros.engines.openai.completions import (
    PROBE_TEXT,
    Chunk,
    ServedModel,
    check_probe,
    grammar_probe,
)
from timely_llm_ros.errors import EngineError, ModelLoadError, RequestRefusedError, ServerLostError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator

    from timely_llm_ros.engines.openai.options import ServerOptions
    from timely_llm_ros.engines.texts import ServerTexts

_MOST_LINE_CHARACTERS = 4_000_000


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
        self._options = options
        self._model = ''
        self._size = 0
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={'Authorization': f'Bearer {api_key}'} if api_key else {},
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
        try:
            response = await self._client.get('/health')
        except httpx2.HTTPError as err:
            raise self._lost(err) from err
        if response.status_code != 200:
            raise ServerLostError(
                f'{self.url}/health answered {response.status_code}: expected 200'
            )

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
        choice = await self._complete(probe)
        ids, expected = choice.get('prompt_token_ids'), texts.encode(PROBE_TEXT, beginning=True)
        if ids is None:
            raise ModelLoadError(
                f'{self.url}: no prompt_token_ids in the answer; expected a server that knows '
                'return_token_ids, such as vLLM 0.13 or later'
            )
        if ids != expected:
            raise ModelLoadError(
                f'{self.url}: model {served.name!r} makes {_shortened(ids)} of a text of which the '
                f'tokenizer in {texts.path!r} makes {_shortened(expected)}: expected the same; set '
                'model_path to the folder of the model that is served'
            )
        await self._check_grammar(texts)
        return served

    async def tokens(self, body: dict[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield a completion's tokens as they come, see :class:`Completions`."""
        request = {'model': self._model, 'stream': True, 'return_token_ids': True, **body}
        finished = False
        try:
            async with self._client.stream('POST', '/v1/completions', json=request) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise self._refusal(response)
                async for line in response.aiter_lines():
                    # It is read to its very end, so that the connection can be used again.
                    if finished or not line.startswith('data:'):
                        continue
                    data = line[5:].strip()
                    if data == '[DONE]':
                        finished = True
                        continue
                    chunk = self._chunk(data)
                    finished = finished or bool(chunk.finish)
                    yield chunk
        except httpx2.HTTPError as err:
            if not finished:
                raise self._lost(err) from err
        if not finished:
            raise ServerLostError(f'{self.url}: the stream was cut')

    def _chunk(self, data: str) -> Chunk:
        """Read one event.

        Raises:
            ServerLostError: It is an error, or not what was asked for.
        """
        wrong = f'{self.url}: {data[:80]!r}: expected an event with token ids below {self._size}'
        try:
            event = json.loads(data) if len(data) <= _MOST_LINE_CHARACTERS else None
            error = _error_text(event) if isinstance(event, dict) and 'error' in event else ''
            choice = {} if error else _first_choice(event)
            ids = choice.get('token_ids') or []
            # True and False are integers to Python, but not to us.
            fit = all(type(token) is int and 0 <= token < self._size for token in ids)
            finish = choice.get('finish_reason') or ''
        except (ValueError, TypeError, AttributeError, EngineError) as err:
            raise ServerLostError(wrong) from err
        if error:
            raise ServerLostError(f'{self.url}: {error}')
        if not fit:
            raise ServerLostError(wrong)
        if finish not in ('', 'stop', 'length'):
            raise ServerLostError(f'{self.url}: finish_reason {finish!r}: expected stop or length')
        return Chunk(tuple(ids), finish)

    async def _find_model(self) -> ServedModel:
        answer = await self._ask('/v1/models')
        try:
            models = {item['id']: item for item in answer['data']}
        except (TypeError, KeyError) as err:
            raise ModelLoadError(
                f'{self.url}/v1/models: {str(answer)[:80]!r}: expected a list of models'
            ) from err
        name = self._options.model or (next(iter(models)) if len(models) == 1 else '')
        if name not in models:
            asked = f'{name!r}' if name else 'one model'
            raise ModelLoadError(
                f'{self.url} serves {sorted(models)}: expected {asked}; see server_model'
            )
        limit = models[name].get('max_model_len')
        return ServedModel(name, limit if isinstance(limit, int) and limit > 0 else 1 << 30)

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
        check_probe(self.url, choice.get('token_ids') or (), texts, help_text)

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
        try:
            response = await self._client.request(
                'GET' if body is None else 'POST', path, json=body
            )
        except httpx2.HTTPError as err:
            raise self._lost(err) from err
        if response.status_code != 200:
            error = self._refusal(response)
            raise error if isinstance(error, ServerLostError) else ModelLoadError(str(error))
        try:
            return response.json()
        except ValueError as err:
            raise ModelLoadError(
                f'{self.url}{path}: {response.text[:80]!r}: expected JSON'
            ) from err

    def _refusal(self, response: httpx2.Response) -> EngineError:
        """Return the error of an answer other than 200."""
        status = response.status_code
        if status in (401, 403):
            return RequestRefusedError(
                f'{self.url} answered {status}: expected it to accept the API key; see '
                'server_api_key_file'
            )
        try:
            reason = _error_text(response.json())
        except ValueError:
            reason = response.text[:200]
        text = f'{self.url} answered {status}: {reason}'
        if status >= 500 or status in (408, 425, 429):
            return ServerLostError(text)
        return RequestRefusedError(text)

    def _lost(self, err: httpx2.HTTPError) -> ServerLostError:
        """Return the error of a transport that failed."""
        if isinstance(err, httpx2.ConnectTimeout):
            reason = f'no connection within {self._options.connect_timeout_s:g} s'
        elif isinstance(err, httpx2.TimeoutException):
            reason = f'no answer for {self._options.silence_s:g} s'
        else:
            reason = str(err) or type(err).__name__
        return ServerLostError(f'{self.url}: {reason}')


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


def _shortened(ids: object) -> str:
    text = str(ids)
    return text if len(text) <= 60 else text[:60] + '...'
