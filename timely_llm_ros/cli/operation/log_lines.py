"""Lines of a program's log as JSON: when, how severe, which node, what, and of which tasks."""

from __future__ import annotations

import json
import re

_ROS = re.compile(r'\[(DEBUG|INFO|WARN|ERROR|FATAL)\] \[(\d+\.\d+)\] \[([^\]]*)\]: (.*)')
_TASK = re.compile(r'\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b')
_COLOUR = re.compile(r'\x1b\[[0-9;]*m')


def json_line(line: str, program: str = '') -> str:
    """Return one line of a program's log as a JSON object on one line.

    ``time`` is in s since the epoch. A line that is not ROS's, such as one of a traceback, has
    neither time nor severity. ``tasks`` are the ids that the message names, as goals have them.
    """
    text = _COLOUR.sub('', line.rstrip('\n'))
    found: dict[str, object] = {'program': program} if program else {}
    ros = _ROS.match(text)
    if ros is None:
        found['message'] = text
    else:
        severity, time_s, node, message = ros.groups()
        found |= {'time': float(time_s), 'severity': severity, 'node': node, 'message': message}
    tasks = list(dict.fromkeys(_TASK.findall(text)))
    if tasks:
        found['tasks'] = tasks
    return json.dumps(found, ensure_ascii=False)
