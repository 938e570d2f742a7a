"""A small skill set with one of everything, as YAML."""

PROBE = """\
name: probe
description: a probe
safe_action: hold
skills:
  hold:
    description: hold still
    duration: {model: constant, seconds: 1.0}
  go:
    description: go there
    arguments:
      target: {kind: object, object_kinds: [cup, box]}
      speed: {kind: number, unit: m/s, minimum: 0.1, maximum: 2.5}
      mode: {kind: choice, choices: [slow, fast]}
    duration: {model: linear, base_s: 1, per: {target: 2.0}, variation: 0.1}
  see:
    description: is it there
    blocking: true
    returns: bool
    duration: {model: empirical, samples_s: [0.1, 0.2]}
"""
