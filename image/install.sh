#!/bin/sh
# install.sh ENVIRONMENT LOCK: makes a Python environment of the locked requirements, and of nothing else.
set -eu
if [ -s /run/secrets/ca ]; then
	export PIP_CERT=/run/secrets/ca
fi
if [ -s /run/secrets/pip ]; then
	export PIP_CONFIG_FILE=/run/secrets/pip
fi
python3 -m venv --without-pip "$1"
python3 -m pip --python "$1/bin/python" --quiet --disable-pip-version-check install --no-cache-dir --no-compile \
	--require-hashes --only-binary :all: --requirement "$2"
