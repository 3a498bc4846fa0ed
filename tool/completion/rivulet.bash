# SPDX-License-Identifier: MIT
# Completion of rivulet(1): verbs, the options that --help of the verb lists, files, devices.
_rivulet()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}
	local boards
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "run explain compile bench eval compare prune ibtf plan info status policy doctor disasm asm --help --version" -- "$cur")
		return
	fi
	case $prev in
	-d | --device | -b | --board)
		boards=$(cd /usr/share/rivulet/boards 2>/dev/null && printf 'sim:%s ' *.board)
		mapfile -t COMPREPLY < <(compgen -W "daemon cpu $(echo /dev/accel/accel*) ${boards//.board/}" -- "$cur")
		return
		;;
	--optimise)
		mapfile -t COMPREPLY < <(compgen -W "cycles energy" -- "$cur")
		return
		;;
	--priority)
		mapfile -t COMPREPLY < <(compgen -W "low normal high" -- "$cur")
		return
		;;
	esac
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(rivulet "$verb" --help 2>/dev/null | grep -oE -e '--[a-z-]+' | sort -u)" -- "$cur")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -o filenames -F _rivulet rivulet
