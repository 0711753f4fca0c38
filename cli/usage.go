package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kloop-dev/kloop/cli/ask"
	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/strict"
)

// usage lists the commands by their groups, each with an example.
func usage(w io.Writer) {
	fmt.Fprint(w, "kloop is Kubernetes in one small binary.\n")
	for _, g := range groups() {
		fmt.Fprintf(w, "\n%s\n", g.title)
		for _, c := range g.list {
			fmt.Fprintf(w, "  kloop %-11s %s\n", c.name, c.about)
		}
	}
	fmt.Fprint(w, "\nkloop help COMMAND tells the flags of a command, with an example; kloop completion SHELL completes them.\n"+
		"What tells facts takes -o json|yaml. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 something is stuck (why, gaps, plan).\n")
}

// help lists the commands, or tells all about one.
func help(ctx context.Context, std stdio, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		usage(std.out)
		return nil
	}
	c, ok := find(args[0])
	if !ok {
		return unknown(std, args[0])
	}
	if c.name == "help" || c.name == "kubectl" { // kubectl's own help is kubectl's
		fmt.Fprintf(std.out, "%s", c.head(c.name, c.args))
		return nil
	}
	return c.run(ctx, std, append(slices.Clone(args[1:]), "-h"))
}

// head returns the text above the flags of a command.
func (c command) head(name, words string) string {
	var b strings.Builder
	if c.about != "" {
		fmt.Fprintf(&b, "kloop %s: %s\n\n", c.name, c.about)
	}
	fmt.Fprintf(&b, "usage: %s\n", strings.TrimSpace("kloop "+name+" [flags] "+words))
	if c.example != "" {
		fmt.Fprintf(&b, "\nexample: %s\n", c.example)
	}
	return b.String()
}

// streams is the output of a flag set: errors go to one place, help that was asked for to another.
type streams struct {
	io.Writer           // for errors
	help      io.Writer // a *catcher gets the flags themselves
	head      string
}

// A catcher stands for the standard output of a command whose flags somebody wants to know, as completion and manual pages do.
type catcher struct {
	bytes.Buffer
	fs *flag.FlagSet
}

// flags makes the flag set of a command; words name its arguments: KIND/NAME.
func flags(std stdio, name, words string) *flag.FlagSet {
	fs := flag.NewFlagSet("kloop "+name, flag.ContinueOnError)
	first, _, _ := strings.Cut(name, " ")
	c, _ := find(first)
	fs.SetOutput(streams{std.err, std.out, c.head(name, words)})
	fs.Usage = func() { fmt.Fprintln(fs.Output(), strings.TrimSpace("usage: kloop "+name+" [flags] "+words)) }
	if c.tells(name) {
		ask.BindOutput(fs)
	}
	return fs
}

// needSub answers a command that another word must follow, when none or another did.
func needSub(std stdio, name string, args []string) error {
	c, _ := find(name)
	fs := flags(std, name, c.args)
	if err := parseFlags(fs, args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		fmt.Fprintf(std.err, "kloop %s: what is %q?%s\n", name, fs.Arg(0), strict.Meant(fs.Arg(0), c.subs()))
	}
	return misused(fs)
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
	if slices.Contains(words, "") {
		return nil, misuse("an argument is empty: is it a variable that is not set?")
	}
	return words, formless(fs, words)
}

// parseFlags shows the list of flags when asked for it, not behind every slip of the finger.
func parseFlags(fs *flag.FlagSet, args []string) error {
	out := fs.Output()
	usage := fs.Usage
	fs.SetOutput(io.Discard)
	fs.Usage = func() {} // package flag would call it on every error
	err := fs.Parse(args)
	fs.SetOutput(out)
	fs.Usage = usage
	if err == nil {
		err = improper(fs)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		showHelp(fs)
		return err
	case err != nil:
		fmt.Fprintf(out, "%s: %s%s (%s -h lists the flags)\n", fs.Name(), wrongFlag(fs, err), settings.Explain(fs, args), fs.Name())
		return errUsage
	}
	return nil
}

// wrongFlag words what package flag says of a flag, on one line and with the dashes as they are typed.
func wrongFlag(fs *flag.FlagSet, err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", " ")
	if name, missing := strings.CutPrefix(text, "flag needs an argument: "); missing {
		return dashes(strings.TrimLeft(name, "-")) + " needs a value"
	}
	name, unknown := strings.CutPrefix(text, "flag provided but not defined: ")
	if !unknown {
		return unread(fs, text)
	}
	return "there is no flag " + dashes(strings.TrimLeft(name, "-"))
}

// showHelp prints what the command does and its flags to the standard output, so that they can be searched and paged.
func showHelp(fs *flag.FlagSet) {
	out, ok := fs.Output().(streams)
	if !ok {
		fs.Usage()
		fs.PrintDefaults()
		return
	}
	if c, ok := out.help.(*catcher); ok {
		c.fs = fs
	}
	var b strings.Builder
	b.WriteString(out.head)
	sections, order := map[string][]*flag.Flag{}, []string{}
	fs.VisitAll(func(f *flag.Flag) {
		s := section(f)
		if sections[s] == nil {
			order = append(order, s)
		}
		sections[s] = append(sections[s], f)
	})
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(min(len(a), 1), min(len(b), 1)) }) // the command's own first
	for _, s := range order {
		fmt.Fprintf(&b, "\n%s\n", cmp.Or(s, "flags"))
		for _, f := range sections[s] {
			b.WriteString(flagLine(f))
		}
	}
	_, _ = io.WriteString(out.help, b.String()) // a closed pipe is no reason to fail
}

// section is the heading that a flag stands under: that of its setting.
func section(f *flag.Flag) string {
	if g, ok := f.Value.(interface{ Section() string }); ok {
		return g.Section()
	}
	return ""
}

// flagLine is one flag with what it does and its default.
func flagLine(f *flag.Flag) string {
	name := dashes(f.Name)
	what, about := flag.UnquoteUsage(f)
	if what != "" {
		name += " " + what
	}
	if def := shownDefault(f); def != "" {
		about += " (default " + def + ")"
	}
	if len(name) > 26 {
		return fmt.Sprintf("  %s\n%30s%s\n", name, "", about)
	}
	return fmt.Sprintf("  %-26s  %s\n", name, about)
}

func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// shownDefault is a flag's default. What the environment of the caller says is none.
func shownDefault(f *flag.Flag) string {
	switch def := f.DefValue; {
	case def == "" || def == "false" || def == "0" || def == "0s":
		return ""
	case f.Name == "kubeconfig" && def == os.Getenv("KUBECONFIG"):
		return "$KUBECONFIG"
	default:
		return def
	}
}
