"""Plans, scenes and envelopes, drawn: what is said at the limits is said often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timely_llm_ros.skills import Scene, SceneObject

if TYPE_CHECKING:
    import random

MOVES = (
    'move_forward', 'move_backward', 'move_left', 'move_right', 'move_up', 'move_down',
)  # fmt: skip
PLAIN = ('takeoff', 'land', 'scan', 'hover', 'take_picture')


def draw_scene(draw: random.Random) -> Scene:
    """Return a scene of a few things and people, wherever they are."""
    kinds = ('cup', 'worker', 'child', 'chair')
    return Scene(
        tuple(
            SceneObject(
                f'thing_{number}',
                draw.choice(kinds),
                x_m=round(draw.uniform(-6, 6), 1),
                y_m=round(draw.uniform(-6, 6), 1),
            )
            for number in range(draw.randint(1, 6))
        )
    )


def draw_plan(draw: random.Random, scene: Scene, *, calls: int = 6, depth: int = 2) -> str:
    """Return the text of a plan; repeats and conditions are nested up to ``depth``."""
    return ''.join(_statement(draw, scene, depth) for _ in range(draw.randint(1, calls)))


def _statement(draw: random.Random, scene: Scene, depth: int) -> str:
    kind = draw.random()
    if depth and kind < 0.12:
        body = draw_plan(draw, scene, calls=2, depth=depth - 1)
        return f'repeat({draw.choice((1, 2, 3, 10))}){{{body}}};'
    if depth and kind < 0.2:
        one, two = (draw_plan(draw, scene, calls=2, depth=depth - 1) for _ in range(2))
        sign = draw.choice(('', '!'))
        return f'if({sign}is_visible({draw.choice(scene.names)})){{{one}}}else{{{two}}};'
    if kind < 0.6:
        amount = draw.choice((20, 21, 50, 100, 200, 499, 500, draw.randint(20, 500)))
        return f'{draw.choice(MOVES)}({amount});'
    if kind < 0.72:
        amount = draw.choice((1, 30, 45, 90, 180, 270, 359, 360, draw.randint(1, 360)))
        return f'{draw.choice(("turn_cw", "turn_ccw"))}({amount});'
    if kind < 0.84:
        return f'goto({draw.choice(scene.names)});'
    return f'{draw.choice(PLAIN)};'


def draw_rules(draw: random.Random, *, knows: bool) -> dict[str, Any]:
    """Return some rules, as a drivers file has them; without ``knows`` none about the charge."""
    rules: dict[str, Any] = {}
    if draw.random() < 0.7:
        rules['workspace'] = {
            axis: [-draw.randint(1, 60) / 10, draw.randint(1, 60) / 10]
            for axis in draw.choice(('x', 'xy', 'xy', 'y'))
        }
        if draw.random() < 0.6:
            rules['workspace']['z'] = [draw.choice((-1.0, 0.0, 0.3)), draw.randint(12, 40) / 10]
    if draw.random() < 0.6:
        rules['no_go'] = {
            f'volume_{number}': _draw_box(draw) for number in range(draw.randint(1, 4))
        }
    if draw.random() < 0.4:
        rules['maximum_height_m'] = draw.choice((1.2, 1.5, 3.0))
    if draw.random() < 0.5:
        rules['people_distance_m'] = draw.choice((0.5, 1.0, 2.0))
    if draw.random() < 0.2:
        rules['maximum_speed_m_s'] = draw.choice((0.4, 0.5, 1.0))
    if knows and draw.random() < 0.5:
        rules['minimum_battery_percent'] = draw.choice((20, 60))
    return rules or {'maximum_height_m': 1.5}


def _draw_box(draw: random.Random) -> dict[str, list[float]]:
    box = {}
    for axis in draw.choice(('xyz', 'xy', 'xy', 'x', 'z')):
        low = draw.uniform(-4, 4) if axis != 'z' else draw.choice((0.0, 0.5, 1.5))
        # Not where it stands: nothing would pass at all.
        if axis != 'z' and -0.5 < low < 0.5:
            low += 1.0
        box[axis] = [low, low + draw.choice((0.001, 0.3, 2.0))]
    return box
