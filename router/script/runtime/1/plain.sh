
prepare() {
	container_words
}

judge() { :; }

ask() { kill -s TERM "${pids[$1]}" 2>/dev/null; }
