# One node: whoever runs it, files, clocks, the runtime; then it waits to be deleted, and writes down what that is like.
# The submitter looks into "names" and at "grows" all the while, so that whatever it caches is there to be seen.
probe_links() {
	local words
	echo first >one
	words=$(ln one two 2>&1) && words=ok
	note link "$words"
	note link-count "$(stat -c %h one 2>&1)"
	echo other >three
	if ln three two 2>/dev/null; then note link-over replaced; else note link-over "$(cat two 2>&1)"; fi
	echo new >four
	words=$(mv -T four two 2>&1) && words=$(cat two 2>&1)
	note rename-over "$words"
	words=$(mv -T two five 2>&1) && [[ -e five && ! -e two ]] && words=ok
	note rename "${words:-the old name is still there}"
}

probe_runtime() {
	local path libexec words code other
	path=$(type -P "$runtime")
	note runtime-path "$path"
	[[ $path ]] || return
	note runtime-version "$("$path" --version 2>/dev/null | tail -n 1)"
	libexec=$("$path" buildcfg 2>/dev/null | sed -n 's/^LIBEXECDIR=//p')
	note setuid "$([[ -u $libexec/apptainer/bin/starter-suid || -u $libexec/singularity/bin/starter-suid ]] && echo yes || echo no)"
	words=$(unshare -U true 2>&1) && words=yes
	note namespaces "$words"
	[[ $image ]] || return
	words=$(timeout 120 "$path" exec "${runtime_options[@]}" --cleanenv --no-home "$image" /bin/true 2>&1 >/dev/null)
	code=$?
	# A runtime that is written in Go says why it dies before its trace.
	note image "$code $(grep -m 1 -E '^(fatal error: |[^ ]*pthread_create failed)' <<<"$words" || tail -n 1 <<<"$words")"
	note data-limit "$(ulimit -d)"
	for other in "${images[@]}"; do
		[[ -r $other ]] || note image-missing "$other"
	done
}

show_time() {
	local beat now
	for ((beat = 0; beat < beats; beat++)); do
		now=$(date +%s)
		: >"names/$now.$beat"
		printf '%010d\n' "$now" >>grows
		sleep 1
	done
}

await_end() {
	local told=''
	trap 'told=1; date +%s.%N >>term' TERM
	while ((SECONDS < most)); do
		[[ ! $told ]] || date +%s.%N >>beats
		sleep 0.2
	done
}

probe() {
	: >stamp
	note clock "$(date +%s)"
	note stamp "$(stat -c %Y stamp 2>&1)"
	probe_links
	[[ ! $runtime ]] || probe_runtime
	show_time
	finish
	await_end
}
