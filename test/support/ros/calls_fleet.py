"""A robot that the driver ``ros`` moves, and mocks of everything that its calls file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from support.ros.fleet import Fleet
from support.ros.mock_servers import MockServers

if TYPE_CHECKING:
    from pathlib import Path

    from support.ros.ros_client import Client

ANSWER_S = 5.0
"""How long a server may take to answer (s): a busy machine is no failure."""


class CallsFleet(Fleet):
    """One robot under mocked servers."""

    servers: MockServers

    def __init__(
        self,
        client: Client,
        folder: Path,
        robot: str,
        *,
        skill_set: str,
        calls: str,
        driver: dict[str, Any] | None = None,
        executor: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        drivers = folder / 'robots.yaml'
        entry = {
            'driver': 'ros',
            'calls_file': calls,
            'answer_limit_s': ANSWER_S,
            'server_limit_s': 60.0,
            **(driver or {}),
        }
        drivers.write_text(yaml.safe_dump({robot: entry}), encoding='utf-8')
        parameters = {'drivers_file': str(drivers), 'timeout_margin_s': 60.0, **(executor or {})}
        self._robot, self._calls = robot, calls
        super().__init__(client, folder, robots={robot: skill_set}, executor=parameters, **options)

    def start_executor(self, robots: list[str]) -> Any:
        if not hasattr(self, 'servers'):
            self.servers = MockServers(
                self.folder,
                self.namespace,
                self._robot,
                skill_set=self.robots[self._robot],
                calls=self._calls,
            )
        return super().start_executor(robots)

    def close(self) -> None:
        super().close()
        if hasattr(self, 'servers'):
            self.servers.close()
