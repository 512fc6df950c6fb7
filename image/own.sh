#!/bin/sh
# own.sh REVISION: installs the checkout in /source into /opt/batchgate, where it remembers the revision.
set -eu
# A wheel keeps modes, which differ with the umask of the checkout.
chmod -R u=rwX,go=rX .
printf '%s\n' "$1" >router/revision
python3 -m pip --python /opt/making/bin/python --quiet --disable-pip-version-check wheel --no-deps --no-build-isolation \
	--no-cache-dir --no-index --wheel-dir /wheels .
python3 -m pip --python /opt/batchgate/bin/python --quiet --disable-pip-version-check install --no-deps --no-index \
	--no-compile --find-links /wheels batchgate
# Other packages' commands, the shell functions of the environment: nobody calls them in an image.
find /opt/batchgate/bin ! -name 'python*' ! -name batchgate ! -type d -delete
