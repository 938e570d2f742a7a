"""The ROS 2 nodes: the planner, the executor, and what they are made of."""
