# A planner with the embedded engine on a CPU; also the recorder and the window.
# docker build -f config/docker/planner-cpu.Dockerfile -t timely-planner:cpu .
FROM ros:kilted-ros-base

SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian's and Ubuntu's archives keep no old versions, so a pinned one would soon not be found.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends build-essential python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv --system-site-packages /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch \
    && /opt/venv/bin/pip install --no-cache-dir 'transformers>=5' tokenizers safetensors \
        'llguidance>=1.0' 'jinja2>=3.1' 'mcap>=1.2' 'lz4>=4' 'rosbags>=0.11' zstandard \
        'websockets>=14' 'prometheus-client>=0.20' 'opentelemetry-sdk>=1.27' \
        'opentelemetry-exporter-otlp-proto-http>=1.27'
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
