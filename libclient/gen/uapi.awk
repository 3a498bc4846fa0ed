# SPDX-License-Identifier: MIT
# uapi.awk uapi/rivulet_accel.h docs/uapi.md: the page with each "<!-- struct NAME -->" block filled from
# the header's kernel-doc: fields in order, with type, direction and meaning; and each "<!-- enum NAME -->".
FNR == NR {
	if (/^struct [a-z_]+ \{/)
		name = $2
	else if (/^enum [a-z_]+ \{/)
		list = $2
	else if (/^\};/)
		name = list = ""
	else if (list && /^\t\/\*\* @/) {
		sub(/^\t\/\*\* @/, "")
		sub(/ *\*\/$/, "")
		value = doc = $0
		sub(/:.*/, "", value)
		sub(/^[^:]*: */, "", doc)
		table[list] = table[list] "| `" value "` | " doc " |\n"
		doc = ""
	}
	else if (name && /^\t\/\*\* @/)
		doc = $0
	else if (name && doc != "" && /;/) {
		sub(/^\t\/\*\* @[a-z_]+: */, "", doc)
		sub(/ *\*\/$/, "", doc)
		type = $0
		sub(/^\t/, "", type)
		sub(/;.*/, "", type)
		field = type
		sub(/.* /, "", field)
		sub(/ [^ ]+$/, "", type)
		gsub(/\|/, "\\|", doc)
		table[name] = table[name] "| `" field "` | " type " | " doc " |\n"
		doc = ""
	}
	next
}
/^<!-- struct / {
	print
	if (!($3 in table)) {
		print "uapi.awk: no struct " $3 " in the header" >"/dev/stderr"
		bad = 1
	}
	printf "\n`struct %s`\n\n| field | type | meaning |\n|---|---|---|\n%s\n", $3, table[$3]
	skip = 1
	next
}
/^<!-- enum / {
	print
	printf "\n| value | meaning |\n|---|---|\n%s\n", table[$3]
	if (!($3 in table))
		bad = 1
	skip = 1
	next
}
/^<!-- end -->/ { skip = 0 }
!skip
END { exit bad }
