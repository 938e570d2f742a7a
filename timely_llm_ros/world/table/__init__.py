"""A table with an arm: it moves, grips and is judged by what then lies where."""

from timely_llm_ros.world.table.arm_reach import ArmReach
from timely_llm_ros.world.table.arm_shape import JOINTS, TABLE_HALF_M, TABLE_M, add_arm
from timely_llm_ros.world.table.joint_controller import JointController
from timely_llm_ros.world.table.table import STAY_S, Table, TableWatch
from timely_llm_ros.world.table.things import (
    add_table,
    add_table_thing,
    arrange_table,
    table_shape_of,
)
from timely_llm_ros.world.table.world_arm import WorldArm, add_grips

__all__ = [
    'JOINTS', 'STAY_S', 'TABLE_HALF_M', 'TABLE_M', 'ArmReach', 'JointController', 'Table',
    'TableWatch', 'WorldArm', 'add_arm', 'add_grips', 'add_table', 'add_table_thing',
    'arrange_table', 'table_shape_of',
]  # fmt: skip
