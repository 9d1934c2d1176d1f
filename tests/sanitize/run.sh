#!/bin/sh
# Builds the C++ module with sanitizers and runs its tests and the fuzzer against it.
#
#     tests/sanitize/run.sh [address] [thread]      FUZZ_SECONDS=30  JPEG_INPUTS=100000  PYTHON=python  BUILD=build/sanitize
#
# "address" is AddressSanitizer and UndefinedBehaviorSanitizer together; both kinds by default. Needs GCC, or
# another compiler that answers -print-file-name for the sanitizers' shared libraries.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python}
build=${BUILD:-$root/build/sanitize}
seconds=${FUZZ_SECONDS:-30}
jpeg_inputs=${JPEG_INPUTS:-100000}
compiler=${CXX:-c++}

prepare() { # kind, compiler flags
    mkdir -p "$build/$1/site/stoker"
    cmake -S "$root" -B "$build/$1" -DCMAKE_BUILD_TYPE=Debug -DPython_EXECUTABLE="$(command -v "$python")" \
        -DCMAKE_CXX_FLAGS="-O1 -g -fno-omit-frame-pointer $2" >"$build/$1/configure.log"
    cmake --build "$build/$1" --parallel 2 >"$build/$1/build.log" 2>&1 || { cat "$build/$1/build.log"; exit 1; }
    for entry in "$root"/src/stoker/*; do
        ln -sfn "$(readlink -f "$entry")" "$build/$1/site/stoker/$(basename "$entry")"
    done
    ln -sfn "$build/$1"/_native.*.so "$build/$1/site/stoker/"
    # This folder comes before an installed stoker, in child processes too; an editable install must not step
    # in front of it.
    cat >"$build/$1/site/sitecustomize.py" <<END
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
END
}

sanitized() { # kind, libraries to preload; then a command line for Python
    kind=$1 preload=$2
    shift 2
    # A new address space layout may lie where ThreadSanitizer keeps its shadow.
    env PYTHONPATH="$build/$kind/site" LD_PRELOAD="$preload" \
        OPENBLAS_NUM_THREADS=1 PYTHONMALLOC=malloc \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
        UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
        TSAN_OPTIONS=halt_on_error=1:exitcode=66:suppressions="$root/tests/sanitize/thread.supp" \
        setarch -R "$python" "$@"
}

check() { # kind, libraries to preload, which tests; then arguments for the fuzzer
    kind=$1 libraries=$2 tests=$3
    shift 3
    sanitized "$kind" "$libraries" -c "from stoker import _native; assert _native.__file__.startswith('$build/$kind'), _native.__file__"
    echo "== $kind: tests"
    # ThreadSanitizer does not see that the GIL orders the threads that run custom steps.
    if [ "$kind" = address ]; then steps=$root/tests/unit/pipeline/engines/native; else steps=; fi
    sanitized "$kind" "$libraries" -m pytest -q -p no:cacheprovider --capture=sys -k "$tests" "$root"/tests/*/native ${steps:+"$steps"}
    if [ "$kind" = address ]; then
        echo "== $kind: comparison of the JPEG decoders"
        jpeg_decoders
    fi
    echo "== $kind: fuzzer, $seconds s"
    # Sanitizers reserve more address space than any limit of it would allow.
    sanitized "$kind" "$libraries" "$root/tests/fuzz/fuzz.py" --seconds "$seconds" --memory 0 --limit 60 \
        --scratch "$build/$kind" "$@"
}

# Compares both JPEG decoders, and the kernels of ours, in programs without Python: a million inputs take minutes.
jpeg_decoders() {
    cmake --build "$build/address" --target jpeg_decoders --target jpeg_kernels >>"$build/address/build.log" 2>&1
    (
        cd "$build/address"
        export STOKER_JPEG=stoker
        ./jpeg_decoders "$jpeg_inputs" 0 damaged
        ./jpeg_decoders "$jpeg_inputs" 2 banded
        for level in avx512 avx2 plain; do
            STOKER_CPU_LEVEL=$level ./jpeg_decoders $((jpeg_inputs / 10)) 1 intact
            STOKER_CPU_LEVEL=$level ./jpeg_kernels "$jpeg_inputs" 1
        done
    )
}

library() { "$compiler" -print-file-name="$1"; }

for kind in ${*:-address thread}; do
    mkdir -p "$build/$kind"
    case $kind in
        address)
            prepare address "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
            check address "$(library libasan.so):$(library libubsan.so):$(library libstdc++.so.6)" ""
            ;;
        thread)
            prepare thread "-fsanitize=thread"
            # Behind mappings of gibibytes ThreadSanitizer now and then fails to allocate memory of its own.
            check thread "$(library libtsan.so):$(library libstdc++.so.6)" "not gibibyte and not no_int" \
                --target images --target drawing  # the others run threads of Python, too
            ;;
        *) echo "unknown kind $kind: address or thread" >&2; exit 2 ;;
    esac
done
