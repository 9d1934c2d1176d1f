# syntax=docker/dockerfile:1
# Stoker in a container, from the wheels that tools/wheels.sh leaves in dist/.
#
#   CPU:  docker build -t stoker .
#   GPU:  docker build -t stoker:gpu --build-arg BASE=pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime --build-arg EXTRAS=dali-cuda12,remote .
#
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" stoker convert /data/photos /data/shards/train
#   docker run --rm --gpus all -v "$PWD:/data" --entrypoint python stoker:gpu /data/train.py
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG EXTRAS=remote
# The wheels are mounted, not copied: no layer keeps them. The first line takes the one that fits, and no other project of its name.
RUN --mount=type=bind,source=dist,target=/dist \
    pip download --no-index --no-deps --find-links /dist --dest /tmp/wheel stoker \
    && pip install --no-cache-dir "$(ls /tmp/wheel/stoker-*.whl)[${EXTRAS}]" \
    && rm -r /tmp/wheel
WORKDIR /data
ENTRYPOINT ["stoker"]
CMD ["doctor"]
