"""Records runs of a robot fleet as traces, reads them back and reports on them.

A trace is a rosbag2 folder (MCAP). ``lrtrace.storage`` writes and reads one without ROS;
``lrtrace.record`` has the ROS node that records; ``lrtrace.report`` makes the HTML report. Importing this package loads none of them.
"""

__all__: list[str] = []
