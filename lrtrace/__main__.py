"""``python -m lrtrace`` is the command line of traces."""

import sys

from lrtrace.cli import main

if __name__ == '__main__':
    sys.exit(main())
