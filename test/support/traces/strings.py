"""Traces of strings alone, written in one file or in several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lrtrace.storage.writer import TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

STRING = 'std_msgs/msg/String'


def string_bytes(text: str) -> bytes:
    data = text.encode() + b'\0'
    return b'\0\1\0\0' + len(data).to_bytes(4, 'little') + data


def write_parts(folder: Path, *, close: bool = True, **limits: Any) -> list[str]:
    writer = TraceWriter(folder, custom_data={'seed': '1'}, **limits)
    texts = [f'{number} ' * 300 for number in range(40)]
    for number, text in enumerate(texts):
        if number == 20:
            writer.add_topic('/late', STRING)
        if number % 20 == 0:
            writer.add_topic('/words', STRING)
        topic = '/late' if number > 30 else '/words'
        writer.write(topic, string_bytes(text), log_ns=10**18 + number * 10**8)
        writer.flush()
    if close:
        writer.close()
    return texts
