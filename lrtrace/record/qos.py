"""Converts the QoS of recorded topics between traces and rclpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from lrtrace.storage import TopicQos

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rclpy.topic_endpoint_info import TopicEndpointInfo


def qos_profile(qos: TopicQos) -> QoSProfile:
    """Return a topic's QoS for rclpy; for a word that it does not know, the stronger policy."""
    best_effort, kept = qos.reliability == 'best_effort', qos.durability == 'transient_local'
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=qos.depth,
        reliability=ReliabilityPolicy.BEST_EFFORT if best_effort else ReliabilityPolicy.RELIABLE,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if kept else DurabilityPolicy.VOLATILE,
    )


def offered_qos(publishers: Sequence[TopicEndpointInfo]) -> TopicQos:
    """Return the weakest QoS that the publishers of a topic offer, which all of them can serve."""
    profiles = [publisher.qos_profile for publisher in publishers]
    reliable = all(p.reliability != ReliabilityPolicy.BEST_EFFORT for p in profiles)
    kept = all(p.durability == DurabilityPolicy.TRANSIENT_LOCAL for p in profiles)
    return TopicQos(
        reliability='reliable' if reliable else 'best_effort',
        durability='transient_local' if kept else 'volatile',
        depth=max(1, *(p.depth for p in profiles)),
    )
