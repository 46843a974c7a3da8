#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: it installs Python's packages into a virtual environment that the jailed
# processes can read. With ATTENTION_LADDER_VENV, an environment that is there already is used, and nothing is installed.
set -euo pipefail

AUTOGRADER="${ATTENTION_LADDER_AUTOGRADER:-/autograder}"
COURSE="$AUTOGRADER/source/course"
VENV="${ATTENTION_LADDER_VENV:-/opt/attention-ladder}"

fits() { command -v "$1" > /dev/null && "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'; }

find_python() {
    for PYTHON in python3 python3.13 python3.12 python3.11; do
        if fits "$PYTHON"; then return 0; fi
    done
    return 1
}

if [ -z "${ATTENTION_LADDER_VENV:-}" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq make libseccomp2
    if ! find_python; then
        apt-get install -y -qq python3.13 || apt-get install -y -qq python3.12 || apt-get install -y -qq python3.11 || true
    fi
    if ! find_python; then
        echo "This image has no Python from 3.11 to 3.13. On Gradescope, choose the base image with Ubuntu 24.04." >&2
        exit 1
    fi
    VERSION="$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    apt-get install -y -qq "python$VERSION-venv" || apt-get install -y -qq python3-venv
    make -C "$COURSE" setup VENV="$VENV" PYTHON="$PYTHON"
fi

echo "$VENV" > "$AUTOGRADER/source/venv"
cd "$COURSE"
"$VENV/bin/python" -c 'import torch, grader.gradescope.run; print("ready: torch", torch.__version__)'
