package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/kloop-dev/kloop/cli/settings"
)

// usage lists the commands.
func usage(w io.Writer) {
	fmt.Fprint(w, "kloop is Kubernetes in one small binary.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  kloop %-11s %-19s %s\n", c.name, c.args, c.about)
	}
	fmt.Fprint(w, "\nkloop COMMAND -h tells the flags of a command.\n")
}

// flags makes the flag set of a command; words are what stands beside its flags: KIND/NAME.
func flags(std stdio, name, words string) *flag.FlagSet {
	fs := flag.NewFlagSet("kloop "+name, flag.ContinueOnError)
	fs.SetOutput(std.err)
	fs.Usage = func() { fmt.Fprintln(fs.Output(), strings.TrimSpace("usage: kloop "+name+" [flags] "+words)) }
	return fs
}

// misused tells how the command is called.
func misused(fs *flag.FlagSet) error {
	fs.Usage()
	return errUsage
}

// parse reads the flags and refuses what is left over.
func parse(fs *flag.FlagSet, args []string) error {
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(fs.Output(), "%s: what is %q? There are only flags\n", fs.Name(), strings.Join(fs.Args(), " "))
		return errUsage
	}
	return nil
}

// wordsOf reads flags that may stand before, between and after the words, as with kubectl, and returns the words, which must be so many.
func wordsOf(fs *flag.FlagSet, args []string, least, most int) (words []string, err error) {
	for {
		if err := parseFlags(fs, args); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	if len(words) < least || len(words) > most {
		return nil, misused(fs)
	}
	return words, nil
}

// long is a flag's name of more than a letter in what package flag prints.
var long = regexp.MustCompile(`(?m)^  -(\w[\w-]+)`)

// parseFlags shows the list of flags when asked for it, not behind every slip of the finger.
func parseFlags(fs *flag.FlagSet, args []string) error {
	out := fs.Output()
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	defer fs.SetOutput(out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		var list bytes.Buffer
		fs.SetOutput(&list)
		fs.Usage()
		fs.PrintDefaults()
		fmt.Fprint(out, long.ReplaceAllString(list.String(), "  --$1"))
		return err
	case err != nil:
		fmt.Fprintf(out, "%s: %v%s\n%s -h lists the flags\n", fs.Name(), err, settings.Explain(fs, args), fs.Name())
		return errUsage
	}
	return nil
}
