
write_cover() { # FILE, DIRECTORY of the pipes as it will see it
	{
		printf '#!/bin/sh\n'
		declare -f cover
		echo "cover '${2//\'/$quote}' \"\$@\""
	} >"$1" && chmod 755 "$1" || exit 1
}

# Without a container.
put_before_path() {
	local called
	rm -rf "$scratch/covers"
	mkdir "$scratch/covers"
	for called in mpirun mpiexec mpiexec.hydra orterun prterun "${covers[@]}"; do write_cover "$scratch/covers/${called##*/}" "$rooms"; done
	env=("PATH=$scratch/covers:$PATH" "${env[@]}")
}

# Over each launcher that the image or a volume has. Names that neither has come last in PATH: the text may install its own.
cover_launchers() {
	local called file found=' ' done_with=$'\n'
	while read -r called file; do
		[[ $file == /* && $file != *[[:cntrl:]]* ]] || continue
		found+="$called "
		[[ $done_with != *$'\n'"$file"$'\n'* ]] || continue
		done_with+=$file$'\n'
		mount "$scratch/cover" "$file" ro
	done < <(read_until_end <"$scratch/model/launchers")
	mkdir -m 755 "$rooms/bin" || exit 1
	for called in "${covers[@]}"; do
		[[ $called == */* || $found == *" $called "* ]] || cp -p "$scratch/cover" "$rooms/bin/$called" || exit 1
	done
	put_behind_path /run/batchgate/bin
}

put_behind_path() {
	local entry path=''
	for entry in "${image_env[@]}" "${env[@]}"; do [[ $entry != PATH=* ]] || path=${entry#PATH=}; done
	if [[ $path ]]; then
		env+=("PATH=$path:$1")
	else
		env+=("APPEND_PATH=$1") # the runtime's own word: the image's PATH is not known here
	fi
}

# A container as those of ranks are, without what the command has written to its own. It names the launchers that it has, and
# tells for each launch what ranks will find: to start one each time would take as long as a launch by hand.
start_model() { (run_model >"$scratch/model/launchers" 2>/dev/null 6>&- 7>&- 8>&- 9>&- &) }

run_model() {
	local launcher_words=() launcher_env=() given=("${env[@]}")
	launch # for its variables
	local env=("${launcher_env[@]}" "${given[@]}") workdir='' command=1
	local argv=(/bin/sh -c "$(declare -f model list_launchers); model \"\$@\"" model "${targets[@]}" "${covers[@]}")
	mount "$scratch/model" /run/batchgate ro
	container_words
	echo "$BASHPID" >"$scratch/model.pid"
	exec setsid "${words[@]}" </dev/null
}

# Runs in the image, with the paths of volumes.
model() {
	list_launchers "$@"
	echo end
	exec 3<>/run/batchgate/requests >/dev/null
	while read -r number <&3; do
		/bin/sh <"/run/batchgate/$number.question" >"/run/batchgate/$number.answer" 2>/dev/null 3<&- &
	done
}

# What functions of a POSIX shell print there, of the program of ranks and its words, in their directory.
ask_model() { # FUNCTIONS NAME
	local number=${here##*.} asking answering
	local at=${here%/*}/model/$number
	rm -f "$at".*
	mkfifo -m 600 "$at.question" "$at.answer" || return
	exec {asking}<>"$at.question" {answering}<>"$at.answer"
	question "$@" >&"$asking" &
	echo "$number" 1<>"${here%/*}/model/requests"
	read_until_end <&"$answering"
	kill -KILL "$!" 2>/dev/null # nobody has read it
	rm -f "$at".*
	exec {asking}<&- {answering}<&-
}

question() {
	local entry value quote="'\\''"
	printf '%s\n' "$1"
	for entry in "${env[@]}"; do
		value=${entry#*=}
		case ${entry%%=*} in
		*[!A-Za-z0-9_]*) ;;
		PATH | LD_* | PYTHON*) printf "export %s='%s'\n" "${entry%%=*}" "${value//\'/$quote}" ;;
		esac
	done
	printf "cd -- '%s' || echo lost\nset --" "${workdir//\'/$quote}"
	printf " '%s'" "${argv[@]//\'/$quote}"
	printf '\n%s "$@" </dev/null\necho end\nexit\n' "$2"
}

read_until_end() {
	local line
	while IFS= read -r -t 60 line && [[ $line != end ]]; do printf '%s\n' "$line"; done
}

# Runs in the image. Its arguments are the paths of volumes. What links lead to is the same file, under its own name.
list_launchers() {
	rest=$PATH: places='' volumes=''
	while [ "$rest" ]; do places="$places ${rest%%:*}" rest=${rest#*:}; done
	for volume; do
		if [ -d "$volume" ]; then
			volumes="$volumes $volume/bin $volume/*/bin"
		elif [ "${volume%/*}" != "$volume" ]; then
			places="$places ${volume%/*}"
		fi
	done
	for place in $places /bin /usr/bin /usr/local/bin /usr/lib*/*/bin /usr/lib*/*/*/bin /usr/local/*/bin /usr/local/*/*/bin \
		/usr/mpi/*/*/bin /opt/*/bin /opt/*/*/bin /opt/*/*/*/bin /opt/*/*/*/*/bin $volumes; do
		for file in "$place"/mpirun "$place"/mpirun.* "$place"/mpiexec "$place"/mpiexec.* "$place"/orterun "$place"/prterun \
			"$place"/srun; do
			[ -f "$file" ] && [ -x "$file" ] || continue
			real=$(readlink -f "$file" 2>/dev/null) || real=$file
			echo "${file##*/} $real"
		done
	done
}

# Runs in the container, which may have a POSIX shell only, in place of a launcher.
cover() {
	said=${0##*/} at=$1/$$ asked=''
	PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
	if ! command -v cat >/dev/null; then
		echo "batchgate: $said cannot start ranks: the image has no cat, which hands on words and output" >&2
		exit 127
	fi
	echo "$$" >"$1/requests"
	shift
	trap 'asked=TERM && { echo TERM >&8; } 2>/dev/null' TERM
	trap 'asked=INT && { echo INT >&8; } 2>/dev/null' INT
	trap 'asked=HUP && { echo HUP >&8; } 2>/dev/null' HUP
	trap '' USR1 USR2
	until [ -p "$at/ready" ]; do sleep 0.02 2>/dev/null || sleep 1; done
	if [ -e /proc/self/fd/0 ]; then exec 9<&0; else exec 9</dev/null; fi
	# What timeout sends goes to a whole group: the words on their way are not lost by it.
	(trap '' TERM INT HUP && exec cat <&9 >"$at/in") &
	input=$!
	exec 9<&-
	(trap '' TERM INT HUP && exec cat <"$at/out") &
	output=$!
	(trap '' TERM INT HUP && exec cat <"$at/err" >&2) &
	errors=$!
	(trap '' TERM INT HUP && read -r code <"$at/code" && exit "$code" || exit 137) &
	ended=$!
	{
		printf '%s\0' "$#" "$said" "$@" "$(pwd -P)" \
			"umask $(umask) c $(ulimit -S -c) n $(ulimit -S -n) s $(ulimit -S -s) l $(ulimit -S -l)"
		cat "/proc/$$/environ"
	} >"$at/call"
	exec 8>"$at/ask" # its end tells outside that this has ended
	[ -z "$asked" ] || echo "$asked" >&8
	for process in "$output" "$errors" "$ended"; do
		while wait "$process"; code=$?; kill -0 "$process" 2>/dev/null; do :; done
	done
	kill -KILL "$input" 2>/dev/null
	exit "$code"
}
