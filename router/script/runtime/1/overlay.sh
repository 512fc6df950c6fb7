
overlay() {
	rm -rf "$scratch/$name.overlay"
	mkdir "$scratch/$name.overlay"
	echo "$scratch/$name.overlay"
}
