"""What benchmarks share."""

from benchmarks.common.arguments import (
    COUNT,
    FROM_ZERO,
    POSITIVE,
    Number,
    arguments,
    new_file,
    new_folder,
)
from benchmarks.common.browser import Browser
from benchmarks.common.cpu_noise import QUIET_CORES, Others, busy
from benchmarks.common.fleet import running_fleet
from benchmarks.common.interleaved import Way, gain, gain_errors, run_in_turns, standard_error
from benchmarks.common.own_host import enter_own_host, lost_datagrams, own_shared_memory
from benchmarks.common.pictures import finish, picture, require_matplotlib
from benchmarks.common.programs import Sample, family, lines_of, sample, worker_of
from benchmarks.common.ray_nodes import ray_nodes
from benchmarks.common.results import FOLDER, Target, command, machine, save

__all__ = [
    'COUNT', 'FOLDER', 'FROM_ZERO', 'POSITIVE', 'QUIET_CORES', 'Browser', 'Number', 'Others',
    'Sample', 'Target', 'Way', 'arguments', 'busy', 'command', 'enter_own_host', 'family',
    'finish', 'gain', 'gain_errors', 'lines_of', 'lost_datagrams', 'machine', 'new_file',
    'new_folder', 'own_shared_memory', 'picture', 'ray_nodes', 'require_matplotlib',
    'run_in_turns', 'running_fleet', 'sample', 'save', 'standard_error', 'worker_of',
]  # fmt: skip
