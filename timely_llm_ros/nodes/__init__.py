"""The ROS 2 nodes, a folder each."""
