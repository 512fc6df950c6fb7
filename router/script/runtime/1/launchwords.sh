
# Reads "given", a launcher's name and words, as router.workload.launcherline does: figures, placement, "settings", argv.
take_words() {
	local table word shown option meaning value values inline at=1
	table=("${mpirun_options[@]}")
	[[ $said != srun* ]] || table=("${srun_options[@]}")
	while ((at < ${#given[@]})); do
		word=${given[at]}
		[[ $word == -?* ]] || break
		((++at))
		[[ $word != -- ]] || break
		take_option
	done
	argv=("${given[@]:at}")
	((${#argv[@]})) || misread 'is followed by no program'
}

misread() { cannot_start 2 "$said $1"; }

take_option() {
	local count
	values=() inline='' shown=${word%%=*}
	known "$shown" && [[ $word == *=* ]] && inline=1 values=("${word#*=}")
	if [[ ! $inline && $said == srun* && $word == -[!-]?* ]] && known "${word:1:1}"; then
		[[ $option != *' 0' ]] || ! takes_value "${word:1}" || misread "has $word, several options in one; write them apart"
		shown=${word:0:2} value=${word:2} inline=1
		values=("${value#=}")
	elif [[ ! $inline ]]; then
		shown=$word
	fi
	if ! known "$shown"; then
		unknown_option
		return
	fi
	meaning=${option% *} count=${option#* }
	[[ $meaning != several_programs ]] || means_several_programs
	if [[ $inline ]]; then
		[[ $count != 0 || $meaning == dropped ]] || misread "has $word, and $shown takes no value"
	else
		[[ $meaning != set || ${given[at]} != *=* ]] || count=1
		values=("${given[@]:at:count}")
		((at += count))
	fi
	[[ $meaning != set || ${values[0]} != *=* ]] || count=1
	((${#values[@]} >= count)) || misread "has $shown without its value"
	value=${values[0]}
	"means_$meaning"
}

# $option: "meaning count" of a name with any number of dashes before it; fails where the table has none.
known() {
	local row name=$1
	while [[ $name == -* ]]; do name=${name#-}; done
	option=''
	[[ $name && $name != *[[:space:]]* ]] || return
	for row in "${table[@]}"; do
		[[ $row == *" $name "* ]] || continue
		option=${row%%:*}
		return
	done
	return 1
}

# Whether any letter of several is an option with a value, or none at all.
takes_value() {
	local i keep=$option found=1
	for ((i = 0; i < ${#1}; i++)); do
		if ! known "${1:i:1}" || [[ $option != *' 0' ]]; then found=0; fi
	done
	option=$keep
	return "$found"
}

# It is left out where the next word is surely not its value.
unknown_option() {
	local rest=$((${#given[@]} - at))
	[[ $word == *=* || $rest == 1 || (${given[at]} == -* && $rest -gt 0) ]] ||
		misread "has the unknown option $word, after which it cannot be told where the program starts; write it before another option, or leave it out"
}

count_of() { # VARIABLE COUNT, which is a part of the value
	local part=which
	if [[ ! $2 || $2 == *[!0-9]* ]] || ((${#2} > ${#largest_count} || 10#$2 < 1 || 10#$2 > largest_count)); then
		[[ $2 == "$value" ]] || part="where ${2:0:40}"
		misread "has $shown ${value:0:40}, $part is not a whole number from 1 to $largest_count"
	fi
	printf -v "$1" %d $((10#$2))
}

means_ranks() { count_of ranks "$value"; }
means_ranks_per_node() { count_of per_node "$value"; }
means_one_per_node() { per_node=1; }
means_nodes() { count_of nodes "${value%%-*}"; }
means_cores_per_rank() { count_of cores "$value"; }
means_mapping() {
	mapping=$value
	[[ ${shown##*-} != ppr ]] || mapping=ppr:$value
	[[ ! $mapping =~ ^[Pp][Pp][Rr]:([0-9]+):[Nn][Oo][Dd][Ee](:.*)?$ ]] || count_of per_node "${BASH_REMATCH[1]}"
	[[ ! ${mapping,,} =~ (^|[:,])oversubscribe([:,]|$) ]] || crowded=1
	[[ ! $mapping =~ (^|[:,])[Pp][Ee]=([0-9]+)([:,]|$) ]] || count_of cores "${BASH_REMATCH[2]}"
}
means_mapping_word() { mapping=${shown#"${shown%%[!-]*}"} mapping=${mapping#by}; }
means_binding() { binding=$value; }
means_binding_word() { binding=${shown#"${shown%%[!-]*}"} binding=${binding#bind-to-}; }
means_export() { [[ $value && $value != *=* ]] || set_variable "$value"; } # one without a value is there already
means_export_list() { :; }
means_set() {
	[[ $value == *=* ]] || value+="=${values[1]}"
	set_variable "$value"
	[[ ${shown##*-} != genv ]] || everywhere+=("$value")
}
means_srun_export() {
	local items item
	IFS=, read -r -d '' -a items <<<"$value,"
	for item in "${items[@]}"; do [[ $item != *=* ]] || set_variable "$item"; done
}
means_working_dir() { workdir=$value; }
means_dropped() { [[ $shown != *oversubscribe || $shown == *nooversubscribe ]] || crowded=1; }
means_several_programs() { misread "has $shown, which is not one program on many ranks"; }

set_variable() {
	[[ $1 && $1 != =* ]] || misread 'sets a variable without a name'
	settings+=("$1")
}
