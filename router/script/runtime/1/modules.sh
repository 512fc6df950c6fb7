
# "module" is a function of login shells: found where sites put it.
load_modules() {
	local file module
	for file in "$MODULESHOME/init/bash" /etc/profile.d/{modules,lmod,z00_lmod,00-modulepath}.sh /usr/share/lmod/lmod/init/bash; do
		[[ $(type -t module) == function ]] && break
		# shellcheck disable=SC1090
		[[ ! -r $file ]] || . "$file" 7>&- 8>&- 9>&-
	done
	for module in "${modules[@]}"; do
		module load "$module" 7>&- 8>&- 9>&- || refuse 1 "module load $module failed on $HOSTNAME"
	done
}
