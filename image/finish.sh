#!/bin/sh
# finish.sh SECONDS: puts the environment into /system, and what the packages' own scripts would have written; then
# /commands. Every file gets this time, in seconds since 1970.
set -eu
umask 022
mkdir -p /system/opt
cp -a /opt/batchgate /system/opt/
# Links that packages make when they are configured.
ln -s python3.11 /system/usr/bin/python3
ln -s mawk /commands/usr/bin/awk

# Modules for desktops and old services, whose libraries are left out.
for module in _curses _curses_panel _dbm _sqlite3 nis readline; do
	rm /system/usr/lib/python3.11/lib-dynload/"$module".*.so
done
# Byte code that names no file's time: it is the same in each build, and valid wherever the image is unpacked. The order
# of constants in it follows the seed. What a step before has compiled names a time, so that it is written again (-f).
# The Kubernetes client's second half is large, and nothing here loads it.
PYTHONHASHSEED=0 python3 -m compileall -q -f --invalidation-mode unchecked-hash -s /system -x /kubernetes/aio/ \
	/system/usr/lib/python3.11 /system/opt/batchgate/lib

find /system/usr/share/ca-certificates -name '*.crt' | LC_ALL=C sort | xargs cat >/system/etc/ssl/certs/ca-certificates.crt
accounts() {
	printf '%s\n' 'root:x:0:0:root:/root:/usr/sbin/nologin' "batchgate:x:65532:65532::/home/batchgate:$1" \
		'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin'
}
mkdir -p /commands/etc
accounts /usr/sbin/nologin >/system/etc/passwd
accounts /bin/bash >/commands/etc/passwd
printf '%s\n' root:x:0: batchgate:x:65532: nogroup:x:65534: >/system/etc/group
printf '%s\n' 'passwd: files' 'group: files' 'hosts: files dns' >/system/etc/nsswitch.conf
install -d -o 65532 -g 65532 -m 0755 /system/home/batchgate

cp -a /commands /together
sh /image/check.sh /system
cp -a /system/. /together/
sh /image/check.sh /together
rm -r /together
chroot --userspec=65532:65532 /system /opt/batchgate/bin/batchgate version
# The links stand in the layer below.
for name in bin lib lib64 sbin; do
	rm /commands/"$name"
done
# Not every builder sets the times of files, and layers are the same only if their files' times are.
find /system /commands -exec touch --no-dereference --date="@$1" {} +
