
# Has the runtime write image $2 to file $1. Where it cannot, that is why the container is not started.
pull_to() {
	local no_https=() said=$scratch/$name.pull
	[[ ! ${known[insecure]} && " ${options[*]} " != *' --no-https '* ]] || no_https=(--no-https)
	"$runtime" pull "${no_https[@]}" "${@:3}" "$1" "$2" >"$said" 2>&1 &
	wait "$!" && return # a signal ends a wait
	said=$(last_words <"$said")
	because "$2 could not be pulled on $HOSTNAME: ${said:-$runtime gave no reason}" ErrImagePull
	return 1
}

not_pulled() {
	say "${why#*\"message\":}"
	printf %s "$why" >"$scratch/$name.why"
	exit 125
}

# Once for all ranks, which would each pull the image.
pull() {
	[[ -e $dir/image.sif ]] || pull_to "$dir/image.sif" "$image" || not_pulled
	image=$dir/image.sif
}

# The image is pulled in the container's session, so that what ends the container ends that.
pull_first() {
	[[ -e ${known[path]} ]] || ahead=(/bin/bash -c "LC_ALL=C
		$(declare -p known options name scratch runtime job_id)
		$(declare -f say because last_words pull_to not_pulled fetch failed_just_now pull_claimed release holder older take take_over give_signs)
		fetch && exec \"\$@\"" "$name")
}

# Pulls the image into the cache, once for all jobs: who holds the claim pulls, the others wait. imagepull does the same.
fetch() {
	local path=${known[path]} cache=${known[cache]} token=$job_id.$RANDOM$RANDOM$RANDOM why='' stem claim half
	stem=${path%.sif}
	claim=$stem.claim half=$cache/.${stem##*/}.$token.sif
	trap 'release; exit 143' TERM
	(umask 077 && mkdir -p "$cache")
	until [[ -e $path ]]; do
		failed_just_now && not_pulled
		if take "$claim" || take_over; then
			[[ -e $path ]] || pull_claimed
			release
			[[ ! $why ]] || not_pulled
		else
			sleep 2
		fi
	done
	trap - TERM
}

failed_just_now() {
	local line
	! older "$stem.failed" 30 && line=$(head -c 4096 "$stem.failed" 2>/dev/null) && [[ $line == *'"permanent"'* ]] || return
	why=,${line#\{}
	why=${why%,*\"permanent\"*}
}

pull_claimed() {
	local beat
	rm -f "$stem.failed" "$cache/.${stem##*/}."*.sif
	give_signs >/dev/null 2>&1 &
	beat=$!
	if pull_to "$half" "${known[source]}" --disable-cache; then
		ln -T "$half" "$path" 2>/dev/null || [[ -e $path ]] || mv -T "$half" "$path"
	else
		echo "{${why#,},\"permanent\":false}" >"$half" && mv -T "$half" "$stem.failed"
	fi
	kill "$beat"
}

release() {
	rm -f "$half"
	[[ $(holder "$claim") != "$token" ]] || rm -f "$claim"
}

holder() {
	local line=''
	{ read -r line <"$1"; } 2>/dev/null
	echo "$line"
}

# Whether a file is older than so many seconds, by the file server's clock; no when it is not there.
older() {
	local changed
	changed=$(stat -c %Y "$1" 2>/dev/null) && touch "$cache/.now" && (($(stat -c %Y "$cache/.now") - changed > $2))
}

# ln can fail although it linked: a count of 2 proves it.
take() {
	local taken=1
	if ! printf '%s\n{}\n' "$token" 2>/dev/null >"$1.$token"; then
		rm -f "$1.$token"
		because "images are kept in $cache, where nothing can be written on $HOSTNAME: is there a quota?" ErrImagePull
		not_pulled
	fi
	ln -T "$1.$token" "$1" 2>/dev/null
	[[ $(stat -c %h "$1.$token") != 2 && $(holder "$1") != "$token" ]] || taken=0
	rm -f "$1.$token"
	return "$taken"
}

# Replaces the claim of somebody who gives no signs of life. Only one may: who holds the claim to that very claim.
take_over() {
	local held over taken=1
	older "$claim" 120 || return
	held=$(holder "$claim")
	over=$claim.$(printf %s "$held" | sha256sum | head -c 16).over
	! older "$over" 120 || rm -f "$over"
	take "$over" || return
	[[ $(holder "$claim") != "$held" ]] ||
		{ printf '%s\n{}\n' "$token" >"$claim.$token" && mv -T "$claim.$token" "$claim" && taken=0; }
	rm -f "$over"
	return "$taken"
}

give_signs() {
	while kill -0 $$ && [[ $(holder "$claim") == "$token" ]]; do
		touch "$claim"
		sleep 15
	done
}
