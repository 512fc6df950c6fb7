
# A container that runs again, or does not, for another reason than the Pod's policy and its code: own rules, or a probe.
wrap again again_by_policy
again() {
	local code=$code
	[[ $ruled != no ]] || return
	[[ $ruled != yes ]] || code=1
	again_by_policy
}

# For the worker, and for the exit file.
say_again() { # yes|no
	ruled=$1
	[[ $ruled != yes ]] || restart_policy=OnFailure
	why+=",\"again\":\"$1\""
	printf %s ",\"again\":\"$1\"" >>"$scratch/$name.why"
}

wrap judge judge_before_rules
judge() {
	ruled=''
	judge_before_rules "$1"
	[[ $ruled || $stopping || $(type -t "restarts_$1") != function ]] || say_again "$(decide "$1")"
}

decide() { # CONTAINER
	local policy='' verdict=''
	"restarts_$1"
	case ${verdict:-$policy} in
	again | Always) echo yes ;;
	OnFailure) if ((code)); then echo yes; else echo no; fi ;;
	*) echo no ;;
	esac
}

# The functions "restarts_N" of the Job call these. The first rule that matches counts.
rule() { # In|NotIn CODE...
	local listed=''
	[[ " ${*:2} " != *" $code "* ]] || listed=1
	[[ ($1 == In && ! $listed) || ($1 == NotIn && $listed) || $verdict ]] || verdict=again
}

own_policy() { # CONTAINER: $policy is its own, if it has one
	local verdict=''
	[[ $(type -t "restarts_$1") != function ]] || "restarts_$1"
}
