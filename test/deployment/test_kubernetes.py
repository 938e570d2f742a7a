"""The kustomize base and overlay: what they name is there, and Kubernetes takes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from timely_llm_ros.nodes.planner.parameters import PlannerParameters
from timely_llm_ros.ros import check

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'config' / 'kubernetes'
FOLDERS = sorted(path.parent.name for path in FOLDER.glob('*/kustomization.yaml'))
IMAGES = {'timely-planner', 'timely-model-server'}
SCHEMAS = '1.32'
NEEDS_KUBECTL = pytest.mark.skipif(
    shutil.which('kubectl') is None, reason='kubectl: expected on the PATH'
)


def read(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding='utf-8')))


def objects(folder: str) -> list[Any]:
    (top,) = read(FOLDER / folder / 'kustomization.yaml')
    files = [FOLDER / folder / name for name in top['resources'] if name.endswith('.yaml')]
    return [one for file in files for one in read(file)]


def parameters(folder: str) -> dict[str, Any]:
    (found,) = read(FOLDER / folder / 'parameters.yaml')
    named: dict[str, Any] = found['/**/planner']['ros__parameters']
    return named


@pytest.mark.parametrize('folder', FOLDERS)
def test_every_parameter_is_one_of_the_planner(folder: str) -> None:
    for name, value in parameters(folder).items():
        check(PlannerParameters, name, value)
    assert parameters(folder)['metrics_port'] == 9401


@pytest.mark.parametrize('folder', FOLDERS)
def test_a_deployment_runs_our_program_once_with_probes_on_its_port_and_few_rights(
    folder: str,
) -> None:
    for one in (one for one in objects(folder) if one['kind'] == 'Deployment'):
        spec, pod = one['spec'], one['spec']['template']['spec']
        assert spec['selector']['matchLabels'] == spec['template']['metadata']['labels']
        assert (spec['replicas'], spec['strategy']['type']) == (1, 'Recreate')
        assert pod['securityContext']['runAsNonRoot'] is True
        (container,) = pod['containers']
        assert container['image'] in IMAGES
        assert (ROOT / 'scripts' / Path(container['args'][0]).name).is_file()
        assert container['securityContext'] == {
            'allowPrivilegeEscalation': False,
            'capabilities': {'drop': ['ALL']},
        }
        (port,) = container['ports']
        for probe in ('startupProbe', 'livenessProbe'):
            assert container[probe]['httpGet']['port'] == port['name']
        if container['name'] == 'planner':
            assert port['containerPort'] == parameters(folder)['metrics_port']
            assert container['livenessProbe']['httpGet']['path'] == '/metrics'


def test_the_planner_on_a_gpu_finds_its_server() -> None:
    (service,) = [one for one in objects('gpu') if one['kind'] == 'Service']
    (port,) = service['spec']['ports']
    url = f'http://{service["metadata"]["name"]}:{port["port"]}'
    assert parameters('gpu')['server_urls'] == [url]
    (server,) = [one for one in objects('gpu') if one['kind'] == 'Deployment']
    assert server['spec']['template']['metadata']['labels'] == service['spec']['selector']


def build(folder: str) -> list[Any]:
    command = ['kubectl', 'kustomize', str(FOLDER / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@NEEDS_KUBECTL
@pytest.mark.parametrize('folder', FOLDERS)
def test_kustomize_builds_it(folder: str) -> None:
    built = build(folder)
    planner = next(one for one in built if one['metadata']['name'] == 'timely-planner')
    (container,) = planner['spec']['template']['spec']['containers']
    assert container['image'] == 'timely-planner:cpu'
    assert any(item['name'] == 'TIMELY_LLM_API_KEY' for item in container['env']) == (
        folder == 'gpu'
    )


@NEEDS_KUBECTL
@pytest.mark.parametrize('folder', FOLDERS)
def test_the_schemas_of_kubernetes_take_it(folder: str) -> None:
    kubernetes_validate = pytest.importorskip(
        'kubernetes_validate', reason='kubernetes-validate: expected, with 17,000 files of schemas'
    )
    for one in build(folder):
        kubernetes_validate.validate(one, SCHEMAS, strict=True)
