#!/usr/bin/env bash
# Makes the virtual environment of the comparison, with every loader that can be installed.
#
#   benchmarks/setup.sh [.venv-bench]
#
# A second run is quick. A loader that cannot be installed is left out; the comparison shows the reason.
set -uo pipefail
cd "$(dirname "$0")/.."

venv=${1:-.venv-bench}
python=$venv/bin/python
logs=$venv/logs
failed=()

step() { # step NAME COMMAND... runs the command with its output in a log, and keeps a failure
  local name=$1
  shift
  printf '%-28s' "$name"
  if "$@" >"$logs/$name.log" 2>&1; then
    echo ok
  else
    echo "failed, see $logs/$name.log"
    failed+=("$name")
    return 1
  fi
}

pip_install() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }

has() { "$python" -c "import importlib.metadata as m; m.version('$1')" 2>/dev/null; }

# Stoker is built with libjpeg-turbo, libdeflate and libwebp, FFCV with OpenCV and libjpeg-turbo; SPDL loads the libraries of FFmpeg.
system_packages() {
  pkg-config --exists opencv4 libturbojpeg libavcodec libjpeg libdeflate libwebpdemux && return
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo -n)
  "${root[@]}" apt-get update -qq &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends \
      build-essential pkg-config python3-dev libjpeg62-turbo-dev libdeflate-dev libwebp-dev libturbojpeg0-dev libopencv-dev \
      libavcodec-dev libavfilter-dev libavformat-dev libavdevice-dev
}

# FFCV 1.0.2 depends on opencv-python, which needs libGL; the headless build is the same module without it.
# Its setup.py imports installed packages, so it is built without isolation.
ffcv() {
  has ffcv && return
  pip_install setuptools numba opencv-python-headless terminaltables pytorch-pfn-extras fastargs assertpy tqdm psutil &&
    pip_install --no-build-isolation --no-deps ffcv
}

tensorflow() {
  has tensorflow-cpu || has tensorflow || pip_install tensorflow-cpu || pip_install tensorflow
}

stoker() {
  pip_install 'scikit-build-core>=0.10' 'nanobind>=2.4' &&
    pip_install --no-build-isolation --config-settings build-dir=build/bench -e '.[plot]'
}

[ -x "$python" ] || "${PYTHON:-python3}" -m venv "$venv" || exit 1
mkdir -p "$logs"
step system-packages system_packages
step pytorch pip_install torch torchvision
step tensorflow tensorflow
step dali pip_install nvidia-dali-cuda120
step ffcv ffcv
step spdl pip_install spdl
step webdataset pip_install webdataset
step litdata pip_install litdata
step mosaic-streaming pip_install mosaicml-streaming
step grain pip_install grain
step hf-datasets pip_install datasets s3fs transformers
step ray-data pip_install 'ray[data]'
step object-store pip_install 'moto[s3,server]' boto3
step stoker stoker || exit 1
[ ${#failed[@]} = 0 ] || echo "left out: ${failed[*]}"
exit 0
