"""Records runs of a robot fleet as traces, reads them back and reports on them.

A trace is a rosbag2 folder of MCAP files. ``lrtrace.storage`` writes, reads and repairs traces
without ROS. ``lrtrace.timeline`` makes the records of ``lrtrace.run`` from one, and
``lrtrace.report`` an HTML page. ``lrtrace.record`` and ``lrtrace.playback`` hold the ROS nodes that
record a trace and play it back. Importing this package loads none of them.
"""

__all__: list[str] = []
