package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/kloop-dev/kloop/cli/ask"
)

// A speech says what a command's standard output means to it.
type speech struct {
	all   bool     // it is all that the command is for: when nobody reads on, the command ends
	words []string // the second words after which the command answers with facts, and takes -o; "" stands for the command itself
}

// The speeches of commands. What acts goes on to its end when nobody reads what it prints.
var (
	acts  = speech{}
	shows = speech{all: true}
	tells = shows.telling("")
)

// telling is a speech that answers with facts after these words.
func (s speech) telling(words ...string) speech { s.words = words; return s }

// tells says whether a command answers with facts: one of the name alone if it does after any word.
func (c command) tells(name string) bool {
	_, word, two := strings.Cut(name, " ")
	return slices.Contains(c.says.words, word) || !two && len(c.says.words) > 0
}

// formOf is the form in which to answer.
func formOf(fs *flag.FlagSet) *ask.Output { return ask.BindOutput(fs) }

// answer writes what a command found out: a value for programs, or text for people.
func answer(std stdio, fs *flag.FlagSet, v any, text func(io.Writer) error) error {
	if form := formOf(fs); !form.Text() {
		return form.Print(std.out, v)
	}
	return text(std.out)
}

// items are the elements of a list as programs read them: an object, as with kubectl, so that there is room beside them.
func items[T any](list []T) any {
	if list == nil {
		list = []T{} // none are [], not null
	}
	return struct {
		Items []T `json:"items"`
	}{list}
}

// formless refuses -o with a word after which the command only acts.
func formless(fs *flag.FlagSet, words []string) error {
	c, ok := find(strings.TrimPrefix(fs.Name(), "kloop "))
	if !ok || len(words) == 0 || c.says.words == nil || slices.Contains(c.says.words, "") || slices.Contains(c.says.words, words[0]) {
		return nil
	}
	if given(fs, "o") || given(fs, "output") {
		return misuse("-o goes with " + strings.Join(c.says.words, ", "))
	}
	return nil
}

// A misuse is wrong usage that the user is yet to be told of.
type misuse string

func (m misuse) Error() string { return string(m) }

// A keeper writes as long as somebody reads.
type keeper struct{ io.Writer }

func (k keeper) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// keepOn has a command go on when nobody reads what it prints: `kloop create dev | head -1` makes all of a cluster.
func keepOn(std stdio) (kept stdio, done func()) {
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE) // whose default is the end
	return stdio{std.in, keeper{std.out}, keeper{std.err}}, func() { signal.Stop(pipe) }
}

// misusef is a misuse in words.
func misusef(format string, args ...any) error { return misuse(fmt.Sprintf(format, args...)) }
