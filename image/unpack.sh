#!/bin/sh
# unpack.sh LIST TREE [STATUS]: unpacks the Debian packages of LIST into the new directory TREE.
#
# No script of a package is run. What remains of each are its files without manuals, its copyright, and its entry in
# var/lib/dpkg/status, by which scanners know it; the entries of STATUS, an image below this one, come first.
set -eu
list=$1 tree=$2 below=${3:-/dev/null}
here=$PWD
fetched=$(mktemp -d)

mkdir -p "$tree/usr/bin" "$tree/usr/lib" "$tree/usr/lib64" "$tree/usr/sbin" "$tree/var/lib/dpkg"
for name in bin lib lib64 sbin; do
	ln -s "usr/$name" "$tree/$name"
done

cd "$fetched"
# The user _apt may not write here, and apt would warn of that.
sed 's/#.*//' "$here/$list" | xargs apt-get -qq -o APT::Sandbox::User=root download
cat "$below" >"$tree/var/lib/dpkg/status"
for package in *.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -xp -C "$tree" --keep-directory-symlink
	dpkg-deb --field "$package" | sed '/^Package:/a Status: install ok installed' >>"$tree/var/lib/dpkg/status"
	echo >>"$tree/var/lib/dpkg/status"
done
cd "$here"
rm -r "$fetched"

rm -rf "$tree"/usr/share/bash-completion "$tree"/usr/share/bug "$tree"/usr/share/info "$tree"/usr/share/lintian \
	"$tree"/usr/share/locale "$tree"/usr/share/man
find "$tree/usr/share/doc" ! -type d ! -name copyright ! -type l -delete
find "$tree" -type d -empty -path '*/usr/share/*' -delete
# No program of an image has more rights than its caller.
chmod -R u-s,g-s "$tree"
