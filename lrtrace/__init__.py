"""Records runs of a robot fleet as traces, reads them back and reports on them.

A trace is a rosbag2 folder of MCAP files. ``lrtrace.storage`` writes, reads and repairs traces
without ROS. ``lrtrace.timeline`` reads one into the records of ``lrtrace.run``, and
``lrtrace.report`` makes an HTML page of them. ``lrtrace.record`` and ``lrtrace.playback`` hold the
ROS nodes that record a trace and play it back. This file imports none of them.
"""

__all__: list[str] = []
