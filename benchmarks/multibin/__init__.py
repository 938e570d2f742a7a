"""Multi-bin batching."""
