"""Playing a trace back into ROS, and resuming after a crash."""
