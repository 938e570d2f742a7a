"""The program that ``timely-llm serve`` starts.

It is a file of its own, which no other imports: Python warns of a program that was imported before
it runs, here and in each of vLLM's processes.
"""

import sys

from timely_llm_ros.engines.vllm.server import main

if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
