#!/bin/sh
# bill.sh NAME VERSION TREE: lists in /bills/NAME.cdx.json what is in an image.
#
# TREE has Debian's records of its packages; Python's are those of /opt/batchgate. The list's serial number is derived
# from its content, its time is SOURCE_DATE_EPOCH: it is the same in each build.
set -eu
name=$1 version=$2 tree=$3
made=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
tools=/opt/making/bin
parts=$(mktemp -d)
mkdir -p /bills

"$tools/cyclonedx-py" environment --output-reproducible --sv 1.6 --pyproject /source/pyproject.toml \
	--output-file "$parts/python.cdx.json" /opt/batchgate
describe() { # describe COMMAND SERIAL OUT ARGUMENT...
	command=$1 serial=$2 out=$3
	shift 3
	"$tools/debsbom" "$command" --sbom-type cdx --cdx-schema-version 1.6 --cdx-serialnumber "$serial" --timestamp "$made" \
		--out "$out" "$@"
}
describe generate 00000000-0000-0000-0000-000000000000 "$parts/debian" --root "$tree" --distro-name debian \
	--distro-arch "$(dpkg --print-architecture)"
serial=$(cat "$parts"/*.cdx.json | python3 -c 'import sys, uuid; print(uuid.uuid5(uuid.NAMESPACE_OID, sys.stdin.read()))')
describe merge "$serial" "/bills/$name" --distro-name "$name" --distro-version "$version" \
	"$parts/debian.cdx.json" "$parts/python.cdx.json"
rm -r "$parts"
