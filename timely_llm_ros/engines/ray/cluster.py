"""The replicas on a Ray cluster: how they are started, found, counted and scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from timely_llm_ros.errors import ConfigurationError, EngineError, ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from timely_llm_ros.engines.config import EngineConfig
    from timely_llm_ros.engines.engine import Engine
    from timely_llm_ros.engines.ray.config import RayOptions

DEPLOYMENT = 'EngineReplica'
DRAIN_LIMIT_S = 600.0
"""How long a replica that is to stop may take for the generations that it has (s)."""

_NO_RAY = '{}: expected Ray Serve (pip install "timely-llm-ros[ray]")'


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as Serve knows it; ``state`` is Serve's word, for example ``RUNNING``."""

    name: str
    state: str
    address: str
    node_id: str
    pid: int | None


def connect(address: str) -> None:
    """Join a cluster, if this process has not joined one.

    Raises:
        ConfigurationError: There is no Ray here.
        ModelLoadError: There is no such cluster.
    """
    try:
        import ray
        from ray import serve  # noqa: F401
    except ImportError as err:
        raise ConfigurationError(_NO_RAY.format(err)) from err
    if ray.is_initialized():
        return
    try:
        ray.init(address, log_to_driver=False, logging_level='WARNING')
    except (ConnectionError, ValueError, RuntimeError) as err:
        raise ModelLoadError(
            f'Ray cluster {address!r}: {err}; expected one there, as "timely-llm cluster up" starts'
        ) from err


def find(app: str) -> Any:
    """Return the handle of an app's replicas; None where there are none."""
    from ray import serve

    found = serve.status().applications.get(app)
    if found is None or found.status in ('DELETING', 'NOT_STARTED'):
        return None
    return serve.get_deployment_handle(DEPLOYMENT, app)


def deploy(
    make: Callable[[EngineConfig], Engine], config: EngineConfig, options: RayOptions
) -> Any:
    """Have an app's replicas started and return their handle; it does not wait for them.

    Args:
        make: Makes an engine of its options.
        config: The options of each replica's engine.
        options: How many there are, and what each takes.
    """
    from ray import serve
    from ray.serve.config import RequestRouterConfig

    from timely_llm_ros.engines.ray.autoscaling import autoscaling
    from timely_llm_ros.engines.ray.replica import EngineReplica

    scales = options.most_replicas > 0
    number: dict[str, Any] = {'num_replicas': options.replicas}
    if scales:
        number = {'autoscaling_config': autoscaling(options.replicas, options.most_replicas)}
    made = serve.deployment(
        EngineReplica,
        name=DEPLOYMENT,
        **number,
        ray_actor_options={'num_cpus': options.cpus, 'num_gpus': options.gpus},
        max_ongoing_requests=1 << 16,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=DRAIN_LIMIT_S,
        health_check_period_s=2.0,
        logging_config={'enable_access_log': False, 'log_level': 'WARNING'},
        request_router_config=RequestRouterConfig(
            request_router_class='timely_llm_ros.engines.ray.router.NamedRouter'
        ),
    )
    # Planners come through handles: no proxy for HTTP is of use.
    serve.start(proxy_location='Disabled')
    target = serve.RunTarget(
        made.bind(make, config),
        name=options.app,
        route_prefix=None,
        external_scaler_enabled=not scales,
    )
    serve.run_many([target], wait_for_applications_running=False)
    return serve.get_deployment_handle(DEPLOYMENT, options.app)


def trouble(app: str) -> str:
    """Return what Serve says of an app that does not come up; empty where it says nothing."""
    from ray import serve

    found = serve.status().applications.get(app)
    if found is None or found.status != 'DEPLOY_FAILED':
        return ''
    return '; '.join([found.message, *(one.message for one in found.deployments.values())])


def scale(app: str, replicas: int) -> None:
    """Have an app's number of replicas changed: more are started, or some drain.

    Raises:
        EngineError: There is no such app, or its number follows its work.
    """
    import ray
    from ray.serve._private.common import DeploymentID
    from ray.serve._private.exceptions import ExternalScalerDisabledError

    try:
        ray.get(
            _controller().update_deployment_replicas.remote(DeploymentID(DEPLOYMENT, app), replicas)
        )
    except ExternalScalerDisabledError as err:
        raise EngineError(
            f'replicas of {app!r}: their number follows their work, for their planner set '
            'ray_most_replicas'
        ) from err
    except ValueError as err:
        raise EngineError(f'replicas of {app!r}: {err}; expected a planner to have begun') from err


def replicas(app: str) -> list[Replica]:
    """Return an app's replicas, those that drain too."""
    import ray

    try:
        controller = _controller()
    except ValueError:
        return []
    details = ray.get(controller.get_serve_instance_details.remote())
    found = details['applications'].get(app, {}).get('deployments', {}).get(DEPLOYMENT, {})
    return [_replica(one) for one in found.get('replicas', ())]


def _replica(told: Mapping[str, Any]) -> Replica:
    """Read what Serve tells of a replica; before it has a process there are only two entries."""
    state = told['state']
    return Replica(
        told['replica_id'],
        str(getattr(state, 'value', state)),
        told.get('node_ip') or '',
        told.get('node_id') or '',
        told.get('pid'),
    )


def _controller() -> Any:
    """Return Serve's controller, of which Serve itself shows only a part.

    Raises:
        ValueError: There is none.
    """
    import ray
    from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

    return ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
