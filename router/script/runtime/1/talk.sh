
# Whether launcher and image can talk is settled before ranks start: ranks that cannot may each run alone and end well.
settle() {
	local served='' launcher_name='' library='' library_name='' certain='' remedy='' verdict='unknown' pair globs
	((ranks > 1)) || return 0 # one rank needs nobody
	served_by
	found_in_image || return 0
	for pair in "${pairs[@]}"; do
		read -r -a globs <<<"$pair"
		# shellcheck disable=SC2053
		[[ $served == ${globs[0]} && $library == ${globs[1]} ]] || continue
		remedy=${pair#* * } verdict=good
		[[ $remedy == '' ]] || verdict=bad
		break
	done
	[[ $verdict != good ]] || return 0
	if [[ $verdict == bad && $certain ]]; then
		cannot_start 126 "$launcher_name on $HOSTNAME cannot start ranks of $library_name, which the program in $image uses: $remedy"
	fi
	say "it is not known whether $launcher_name on $HOSTNAME can start the ranks of this program together: $image has $library_name"
	notes=$((900000000 + ${pipe##*.})) # out of the way of the main loop's own numbers
	note running ",\"container\":\"$name\",\"restart\":${pipe##*.},\"reason\":\"MPIUnknown\""
}

# The launcher as family-version, by its own words, whatever the profile calls it. Of srun it is the kind of PMI.
served_by() {
	local text word last='' kind=''
	launcher_name="the launcher $path"
	text=$(timeout 20 "$path" --version 2>/dev/null </dev/null)
	if [[ $text =~ \(Open\ MPI\)\ ([0-9]+\.[0-9][0-9a-z.]*) ]]; then
		served=openmpi-${BASH_REMATCH[1]} launcher_name="${path##*/} of Open MPI ${BASH_REMATCH[1]}"
	elif [[ $text =~ HYDRA.*Version:\ +([0-9]+\.[0-9][0-9a-z.]*) ]]; then
		served=hydra-${BASH_REMATCH[1]} launcher_name="${path##*/} of Hydra ${BASH_REMATCH[1]}"
	elif [[ $text =~ Intel.*MPI.*Version\ ([0-9][0-9.]*) ]]; then
		served=intelmpi-${BASH_REMATCH[1]} launcher_name="${path##*/} of Intel MPI ${BASH_REMATCH[1]}"
	elif [[ $text =~ ^slurm[^\ ]*\ ([0-9][0-9.]*) ]]; then
		launcher_name="of Slurm ${BASH_REMATCH[1]}"
		for word in "${launcher_words[@]}"; do
			[[ $last != --mpi ]] || kind=$word
			[[ $word != --mpi=* ]] || kind=${word#*=}
			last=$word
		done
		kind=${kind:-$SLURM_MPI_TYPE}
		if [[ ! $kind && $(timeout 20 scontrol show config 2>/dev/null) =~ MpiDefault\ *=\ *([a-z0-9_]+) ]]; then
			kind=${BASH_REMATCH[1]}
		fi
		served=srun-${kind:-none} launcher_name="srun --mpi=${kind:-none} $launcher_name"
	fi
}

# The MPI that the program uses, as family-version. "certain": the program links it. Fails where it uses none.
found_in_image() {
	local line key value family='' number mpis=() titles=() kind='' best=0
	local -A counts=()
	while IFS= read -r line; do
		key=${line%% *} value=${line#* }
		case $key in
		certain) certain=1 ;;
		program) kind=$value ;;
		starts)
			cannot_start 2 "${argv[0]} starts $value itself, and so would each of $ranks ranks; if it is to start once, give the Job the hint batchgate.dev/launcher: inside"
			;;
		unwritable) say "ranks start in $value, where they cannot write: set workingDir to a path in a volume" ;;
		library)
			name_library
			family='' best=0 counts=()
			;;
		word)
			case $value in
			'Open MPI v') family=openmpi ;;
			'MPICH V') family=${family:-mpich} ;;
			MVAPICH) family=mvapich ;;
			Intel*) family=intelmpi ;;
			libpmix) counts[pmix]=1 ;;
			I_MPI_PMI) counts[pmi]=1 ;;
			'' | 127.* | *[!0-9a-z.]*) ;; # the image may say anything, and older shells would run what a subscript holds
			*) counts[n$value]=$((${counts[n$value]:-0} + 1)) ;;
			esac
			;;
		esac
	done < <(look_into_image)
	case ${#mpis[@]}:$kind in
	0:binary | 0:script) return 1 ;; # nothing of MPI
	0:*) library='' library_name='an MPI that could not be looked for' certain='' ;;
	1:*) library=${mpis[0]} library_name=${titles[0]} ;;
	*)
		printf -v library_name '%s, ' "${titles[@]}"
		library='' library_name="several MPIs: ${library_name%, }" certain=''
		;;
	esac
	[[ $library != *+pmix* ]] || library_name+=' with PMIx'
}

# A library's own version stands in it more often than those of what it was built with.
name_library() {
	local known version='' title count
	for number in "${!counts[@]}"; do
		count=${counts[$number]}
		[[ $number != n* ]] || ((count <= best)) || best=$count version=${number#n}
	done
	case $family in
	openmpi) title="Open MPI ${version:-of some version}" ;;
	mpich)
		[[ ! ${counts[pmix]} ]] || family=mpich+pmix
		title="MPICH ${version:-of some version}"
		;;
	intelmpi)
		[[ ! ${counts[pmi]} ]] || family=intelmpi+pmi
		title='Intel MPI' version=''
		;;
	mvapich) title=MVAPICH version='' ;;
	*) title='an MPI that does not say which it is' version='' ;;
	esac
	for known in "${mpis[@]}"; do [[ $known != "$family-$version" ]] || return; done
	mpis+=("$family-$version") titles+=("$title")
}

look_into_image() {
	argv=(/bin/sh -c "$(declare -f look starts_launcher begin linked fingerprint); look \"\$@\"" look "${argv[@]}")
	env=("${launcher_env[@]}" "${env[@]}") # as ranks have them: they may lead to an MPI of the site
	container_words
	timeout --foreground -k 5 60 "${words[@]}" 2>/dev/null </dev/null
}

# Runs in the image, which may have no more than a POSIX shell and grep.
look() {
	PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin # the program's own may lead to nothing else
	command -v grep >/dev/null || return 0 # nothing is known then
	LC_ALL=C
	export LC_ALL
	[ -w . ] || echo "unwritable $PWD"
	set -f
	found=' ' kind=binary first=${1##*/} left=40
	case $first in
	sh | *bash | dash | ksh | zsh | csh | tcsh | env | nice | time | timeout | stdbuf | numactl | taskset | xargs) kind=script ;;
	python* | perl* | ruby* | julia* | Rscript | R | lua* | node | java | octave* | tclsh*) kind=script ;;
	esac
	begin "$(command -v -- "$1")"
	case $magic in
	?ELF*) ;;
	*) kind=script ;;
	esac
	program=$1
	[ "$kind" = script ] || set -- "$1" # the others are its arguments
	case $magic in
	'#!'*) starts_launcher "$(command -v -- "$1")" ;;
	esac
	# A shell's text is looked through word by word: one of them may be the program.
	# shellcheck disable=SC2048
	for word in $*; do
		word=${word%[;\)\}]}
		case $word in
		*mpi4py*) uses_python=1 ;;
		'' | -* | *[!A-Za-z0-9_./+-]*) continue ;;
		esac
		[ "$left" -gt 0 ] || break
		left=$((left - 1))
		file=$(command -v -- "$word")
		[ -f "$file" ] || file=$word
		[ -f "$file" ] || continue
		linked "$file"
		case $first$word in
		python*.py) ! grep -q mpi4py "$file" 2>/dev/null || uses_python=1 ;;
		esac
	done
	case $first${uses_python:+ mpi4py} in
	python*mpi4py)
		file=$("$program" -c 'import importlib.util as u; print(u.find_spec("mpi4py.MPI").origin)' 2>/dev/null)
		[ ! -f "$file" ] || linked "$file"
		;;
	esac
	if [ "$found" != ' ' ]; then
		echo certain
	elif [ "$kind" = script ]; then
		set +f
		for file in $(grep -a -o '/[A-Za-z0-9_./+-]*/libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so\.[0-9]*' /etc/ld.so.cache 2>/dev/null) \
			/usr/lib*/libmpi.so.?? /usr/lib*/*/libmpi.so.?? /usr/lib*/*/lib/libmpi*.so.?? /usr/local/lib*/libmpi*.so.?? \
			/opt/*/lib*/libmpi*.so.?? /opt/*/*/lib*/libmpi*.so.??; do
			case ${file##*/} in
			libmpi.* | libmpich.* | libmpi_mt.* | libmpi_abi.*) fingerprint "$file" ;; # the others are for a language
			esac
		done
	fi
	[ "$found" != ' ' ] || [ ! "$lost" ] || kind=unknown
	echo "program $kind"
}

# A script that would start a launcher in each rank. Comments and what it prints are none.
starts_launcher() {
	line=$(grep -v '^[[:space:]]*\(#\|echo\|printf\)' "$1" 2>/dev/null |
		grep -o -m 1 '\(^\|[[:space:];&|(]\)\(mpirun\|mpiexec\|orterun\|prterun\|srun\)[[:space:]]')
	line=${line%?}
	[ ! "$line" ] || echo "starts ${line#[[:space:];&|(]}"
}

# The first bytes of a file, which may be large and without lines.
begin() { magic=$(head -c 4 2>/dev/null <"$1") || IFS= read -r magic <"$1"; } 2>/dev/null

# The MPI libraries of a binary, or the one within it.
linked() {
	begin "$1"
	case $magic in
	?ELF*) ;;
	*) return ;;
	esac
	# shellcheck disable=SC2013
	for path in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*/libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so[^ ]*'); do
		fingerprint "$path"
	done
	[ "$found" != ' ' ] || ! grep -a -q 'MPICH Version:\|Open MPI v%d' "$1" || fingerprint "$1"
	[ "$found" = ' ' ] || return 0
	# shellcheck disable=SC2013
	for name in $(grep -a -o 'libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so\.[0-9]*' "$1"); do
		for path in $(echo "$LD_LIBRARY_PATH" | tr : ' ') /usr/lib /usr/lib64 /usr/local/lib /lib; do
			[ ! -f "$path/$name" ] || fingerprint "$path/$name"
		done
		lost=1 # unless one was found: it lies where only the program's own loader looks
	done
}

fingerprint() {
	for seen in $found; do [ ! "$1" -ef "$seen" ] || return 0; done
	[ -f "$1" ] || return 0
	found="$found$1 "
	# Intel MPI speaks any launcher's PMI by a library that is named to it, or that it finds itself.
	[ ! "$I_MPI_PMI_LIBRARY" ] && ! grep -a -q libpmix /etc/ld.so.cache 2>/dev/null || echo word I_MPI_PMI
	grep -a -o 'Open MPI v\|MPICH V\|MVAPICH\|Intel(R) MPI\|libpmix\|[A-Z]_[0-9][0-9.]*\|[1-9][0-9]*\.[0-9]\{1,2\}\.[0-9]\{1,2\}[0-9a-z]*' "$1" |
		while IFS= read -r text; do echo "word $text"; done
	echo library
}
