
prepare() {
	container_words
}

ask() { kill -s TERM "${pids[$1]}" 2>/dev/null; }
