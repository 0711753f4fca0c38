package ask

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// A paper says how text is laid out: as it is for programs, wrapped and coloured on a terminal.
type paper struct {
	width  int // 0: no terminal
	colour bool
}

// paperOf looks what a stream is.
func paperOf(out io.Writer) paper {
	f, ok := out.(*os.File)
	if !ok {
		return paper{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 40 {
		return paper{}
	}
	return paper{width, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Lay writes a text as a terminal has room for it: lines are broken between words, trees stay trees.
func Lay(out io.Writer, text string) error {
	_, err := io.WriteString(out, paperOf(out).lay(text))
	return err
}

// Colours of states as they stand in a text.
var colours = map[string]string{"failed": "31", "missing": "31", "blocked": "31", "backing off": "33", "waiting": "33",
	"progressing": "32", "resting": "36", "latent": "36"}

// lay lays a text out.
func (p paper) lay(text string) string {
	text = Escape(text)
	if p.width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for _, part := range wrap(line, p.width) {
			b.WriteString(p.paint(part) + "\n")
		}
	}
	return b.String()
}

// paint colours the state at the end of a line of the tree, or after the owner in a list.
func (p paper) paint(line string) string {
	if !p.colour {
		return line
	}
	for state, code := range colours {
		for _, end := range []string{", " + state + "]", ", " + state + ", for "} {
			if i := strings.LastIndex(line, end); i >= 0 {
				return line[:i+2] + "\x1b[" + code + "m" + state + "\x1b[0m" + line[i+2+len(state):]
			}
		}
	}
	return line
}

// wrap breaks a line between words; what follows stands below where the line's text begins. Commands stay whole: they are pasted.
func wrap(line string, width int) (parts []string) {
	if utf8.RuneCountInString(line) <= width || strings.Contains(line, "kubectl ") {
		return []string{line}
	}
	indent := textColumn(line)
	rest := line
	for utf8.RuneCountInString(rest) > width {
		at := -1
		for i, n := 0, 0; i < len(rest); n++ {
			r, size := utf8.DecodeRuneInString(rest[i:])
			if n > width {
				break
			}
			if r == ' ' && n > indent {
				at = i
			}
			i += size
		}
		if at < 0 {
			break
		}
		parts = append(parts, rest[:at])
		rest = strings.Repeat(" ", indent) + strings.TrimLeft(rest[at:], " ")
	}
	return append(parts, rest)
}

// textColumn is the column where a line's text begins: behind the branch of a tree, or behind the name of a row.
func textColumn(line string) int {
	if i := strings.IndexAny(line, "└├"); i >= 0 {
		return utf8.RuneCountInString(line[:i]) + 3
	}
	if strings.HasPrefix(line, "  ") && len(line) > 11 && line[10] == ' ' && line[11] != ' ' {
		return 11
	}
	return len(line) - len(strings.TrimLeft(line, " ")) + 2
}
