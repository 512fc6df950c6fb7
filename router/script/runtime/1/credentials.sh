
# What was staged of Secrets goes with the containers; what a kill leaves, the agent removes. Another run of the Pod may need it.
wipe() {
	[[ ${ending:-} == lost ]] || ! claimed_by || [[ $owner != "$token" ]] ||
		rm -rf "$dir/argv" "$dir/env" "$dir/files" "$dir/credentials"
}
trap wipe EXIT
