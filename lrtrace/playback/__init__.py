"""Plays a trace back into ROS."""
