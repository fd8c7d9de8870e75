#!/bin/sh
# From an empty machine to a trained model or a passed test suite:
#   sh cmake/quickstart.sh train [FLAGS]   install what is missing, build, train (FLAGS go to `towers train`)
#                                          and, if FLAGS name no --run, evaluate
#   sh cmake/quickstart.sh test            install what is missing, build, run all tests
#   sh cmake/quickstart.sh packages WHAT   install what is missing, then cmake/packages.sh WHAT
# Installs with apt on Debian and Ubuntu; elsewhere it says what is needed. PRESET=release (the default) names the
# CMake preset to build; TOWERS_CUDA says whether to include CUDA: ON (for all cards), OFF, or AUTO (the default: for
# this machine's cards, where nvcc is installed). For packages see cmake/packages.sh.
set -eu

build_packages="cmake ninja-build g++ libvulkan-dev glslang-tools spirv-tools libdnnl-dev ocl-icd-opencl-dev
libglm-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libtomlplusplus-dev zlib1g-dev
libprotozero-dev libisal-dev libturbojpeg0-dev libspng-dev libwebp-dev libstb-dev help2man"
mpi_packages="pkg-config openmpi-bin libopenmpi-dev mpich libmpich-dev"
test_packages="$mpi_packages doctest-dev mesa-vulkan-drivers vulkan-validationlayers util-linux man-db
python3-jsonschema dpkg-dev file"

usage() {
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

install() {
    if ! command -v dpkg-query >/dev/null; then
        echo "This system has no apt. The build needs these, named as Debian's packages (oneDNN is libdnnl-dev):" >&2
        echo "$@" >&2
        echo "Install them, then run: cmake --preset release && cmake --build --preset release" >&2
        for tool in cmake ninja glslangValidator spirv-val spirv-opt; do
            command -v $tool >/dev/null || { echo "$tool is missing" >&2; exit 1; }
        done
        return
    fi
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -z "$missing" ] && return
    echo "installing$missing"
    as_root apt-get update -q >/dev/null
    # shellcheck disable=SC2086 # one word per package
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing >/dev/null
}

build() {
    cmake --preset "$preset" ${TOWERS_CUDA:+"-DTOWERS_CUDA=$TOWERS_CUDA"} "$@" >/dev/null
    cmake --build --preset "$preset"
}

[ $# -ge 1 ] || usage
what=$1
shift
cd "$(dirname "$0")/.."
preset=${PRESET:-release}
case $what in
train)
    # shellcheck disable=SC2086
    install $build_packages
    build -DBUILD_TESTING=OFF
    program=build/$preset/towers
    case " $* " in
    *" --help "* | *" --resume "*) exec "$program" train "$@" ;;
    *" --steps "* | *" --epochs "* | *" --steps="* | *" --epochs="*) ;;
    *" --data "* | *" --data="* | *" --config "* | *" --config="*) ;;
    # The recipe's 100,000 steps and its learning rate are for photographs; the drawn shapes take a minute or two.
    *)
        case " $* " in *" --lr "* | *" --lr="*) ;; *) set -- "$@" --lr 0.05 ;; esac
        set -- "$@" --steps 1200
        ;;
    esac
    case " $* " in
    *" --run "* | *" --run="*) run= ;;
    *)
        name=runs/$(date +%Y%m%d-%H%M%S) run=$name number=2
        mkdir -p runs
        until mkdir "$run" 2>/dev/null; do # mkdir succeeds for only one of several that start at once
            [ -e "$run" ] || { echo "cannot create $run; check the permissions and the disk" >&2; exit 1; }
            run=$name-$number number=$((number + 1))
        done
        set -- "$@" --run "$run"
        ;;
    esac
    "$program" train "$@"
    [ -z "$run" ] || "$program" eval "$run"
    ;;
test)
    # shellcheck disable=SC2086
    install $build_packages $test_packages
    sh cmake/swiftshader.sh .cache/swiftshader
    build -DBUILD_TESTING=ON
    ctest --test-dir "build/$preset" --parallel 3 --output-on-failure "$@"
    ;;
packages)
    # shellcheck disable=SC2086
    install $build_packages $mpi_packages dpkg-dev file python3-venv
    exec sh cmake/packages.sh "$@"
    ;;
*) usage ;;
esac
