// Package upstream reads command lines as upstream's programs take them, for the names under which kloop stands in
// for them: which flags there are, and which of them take a value.
package upstream

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/strict"
)

// ErrHelp says that the caller asked what flags there are.
var ErrHelp = errors.New("help was asked for")

// A Program describes the flags of an upstream program.
type Program struct {
	Name     string
	Switches []string // flags that need no value
	Valued   []string
	Short    map[string]string // one-letter names of flags
}

// A Flag is one flag of a command line.
type Flag struct{ Name, Value string }

// Parse reads a command line. Underscores in names count as dashes. A flag that the program does not have is an error
// that tells the one that was probably meant.
func (p Program) Parse(args []string) (flags []Flag, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, given := strings.Cut(arg, "=")
		switch {
		case arg == "-h" || arg == "--help":
			return nil, ErrHelp
		case strings.HasPrefix(name, "--") && len(name) > 2:
			name = strings.ReplaceAll(name[2:], "_", "-")
		case strings.HasPrefix(name, "-") && p.Short[name[1:]] != "":
			name = p.Short[name[1:]]
		default:
			return nil, fmt.Errorf("what is %q? %s takes only flags", arg, p.Name)
		}
		switch {
		case slices.Contains(p.Switches, name):
			if !given {
				value = "true"
			}
		case !slices.Contains(p.Valued, name):
			return nil, fmt.Errorf("unknown flag: --%s%s", name, strict.Meant(name, slices.Concat(p.Switches, p.Valued)))
		case !given && len(args) == 0:
			return nil, fmt.Errorf("flag needs a value: --%s", name)
		case !given:
			value, args = args[0], args[1:]
		}
		flags = append(flags, Flag{name, value})
	}
	return flags, nil
}

// Help lists the flags; what says which of them do something.
func (p Program) Help(w io.Writer, does func(flag string) bool) {
	fmt.Fprintf(w, "This is kloop in the place of %s. It honours:\n\n", p.Name)
	all := slices.Sorted(slices.Values(slices.Concat(p.Switches, p.Valued)))
	for _, f := range all {
		if does(f) {
			fmt.Fprintf(w, "      --%s\n", f)
		}
	}
	fmt.Fprint(w, "\nIt takes these flags too, which have no effect here:\n\n")
	for _, f := range all {
		if !does(f) {
			fmt.Fprintf(w, "      --%s\n", f)
		}
	}
}
