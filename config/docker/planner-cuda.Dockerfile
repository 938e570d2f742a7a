# A planner with the engine vllm on an NVIDIA GPU; it also serves models: timely-llm serve.
# docker build -f config/docker/planner-cuda.Dockerfile -t timely-planner:cuda .
# The wheels of torch and vLLM bring CUDA; the host has the driver and the NVIDIA container toolkit.
FROM ros:kilted-ros-base

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian's and Ubuntu's archives keep no old versions, so a pinned one would soon not be found.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv --system-site-packages /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir 'vllm>=0.32,<0.34' 'transformers>=5' tokenizers \
        safetensors 'llguidance>=1.0' 'jinja2>=3.1' 'httpx2>=2' 'prometheus-client>=0.20'
COPY . /ws/src/timely_llm_ros
WORKDIR /ws
# hadolint ignore=SC1091
RUN source /opt/ros/kilted/setup.bash \
    && PATH=/opt/venv/bin:$PATH colcon build --merge-install --install-base /opt/timely \
    && rm -rf build log src
COPY config/docker/entrypoint.sh /entrypoint.sh
RUN useradd --create-home --uid 1100 timely
USER 1100
WORKDIR /home/timely
ENTRYPOINT ["/entrypoint.sh"]
CMD ["planner", "--ros-args", "--params-file", "/etc/timely_llm_ros/planner.yaml"]
