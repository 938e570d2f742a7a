"""An LLM planning service for robot fleets that keeps deadlines."""

from pkgutil import extend_path

# The generated interfaces share this package's name. In a source checkout they lie in a folder of
# their own, which this joins to the hand-written one; where both are installed it changes nothing.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'
