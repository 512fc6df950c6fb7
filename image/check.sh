#!/bin/sh
# check.sh TREE: fails if a program or library below TREE needs a shared library that TREE has not.
set -eu
tree=$1
set -- "$tree"/lib*/ld-linux*.so.*
loader=${1#"$tree"}
lacking=$(find "$tree" -type f \( -name '*.so' -o -name '*.so.*' -o -perm /111 \) | while read -r file; do
	chroot "$tree" "$loader" --list "${file#"$tree"}" 2>/dev/null | sed -n "s|^\(.*\) => not found|${file#"$tree"} needs\1|p"
done)
if [ -n "$lacking" ]; then
	printf '%s\n' "image/packages lacks the package of a library:" "$lacking" >&2
	exit 1
fi
