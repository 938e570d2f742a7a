#!/bin/bash
# Run one of the programs (planner, executor, recorder, replay, window), or any other command, with ROS.
set -eo pipefail
source /opt/timely/setup.bash
export PATH=/opt/venv/bin:$PATH
if [[ -x /opt/timely/lib/timely_llm_ros/$1 ]]; then
  program=$1
  shift
  exec /opt/timely/lib/timely_llm_ros/"$program" "$@"
fi
exec "$@"
