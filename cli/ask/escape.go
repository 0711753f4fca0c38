package ask

import (
	"fmt"
	"strings"
	"unicode"
)

// Escape makes a text of others fit for a terminal: what objects hold, and what controllers say of them, could move the cursor of who reads
// it, hide lines or turn their order round. Line ends and tabs stay; other control characters are shown, ESC as ^[ like kubectl does it.
func Escape(text string) string {
	if strings.IndexFunc(text, acts) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteString("^" + string(r+'@'))
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}

// acts says that a terminal does not show a character but does what it says.
func acts(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
