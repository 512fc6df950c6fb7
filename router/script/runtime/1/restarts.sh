
# Whether the container runs again, after a while.
again() {
	local wait
	[[ $kind == sidecar || $code != 0 ]] || return
	((finished - started < 600)) || delay=10
	for ((wait = 0; wait < delay; wait++)); do [[ $stopping ]] || pause 1; done
	((delay = delay < 150 ? 2 * delay : 300, ++restart))
}
