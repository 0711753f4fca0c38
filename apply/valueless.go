package apply

import "strings"

// valueless cuts what the library says of an object down to what may stand in a log: it quotes values, as long as they are, and somebody
// may keep passwords in them.
func valueless(err error) string {
	text := err.Error()
	for _, begins := range []string{", got ", "[", "\n"} {
		text, _, _ = strings.Cut(text, begins)
	}
	const longest = 500
	return text[:min(len(text), longest)]
}
