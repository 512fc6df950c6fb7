
# A function of before, under another name: what comes in its place calls it.
wrap() { eval "$2() $(declare -f "$1" | tail -n +2)"; }
