
# A runtime before --no-eval reads values as shell text.
as_shell_text() {
	value=${value//\\/\\\\} value=${value//\$/\\\$} value=${value//\`/\\\`}
}
