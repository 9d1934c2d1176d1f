# Stoker in a container, from the wheels that tools/wheels.sh leaves in dist/.
#
#   CPU:  docker build -t stoker .
#   GPU:  docker build -t stoker:gpu --build-arg BASE=pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime --build-arg EXTRAS=dali-cuda12,remote .
#
#   docker run --rm -v "$PWD:/data" stoker convert /data/photos /data/shards/train
#   docker run --rm --gpus all --shm-size 1g -v "$PWD:/data" --entrypoint python stoker:gpu /data/train.py
ARG BASE=python:3.12-slim
FROM ${BASE}
ARG EXTRAS=remote
# The wheels are mounted, not copied: no layer keeps them.
RUN --mount=type=bind,source=dist,target=/dist \
    pip install --no-cache-dir --find-links /dist "stoker[${EXTRAS}]"
WORKDIR /data
ENTRYPOINT ["stoker"]
CMD ["doctor"]
