package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kloop-dev/kloop/server/httpapi"
)

// man writes manual pages: kloop(1), and one for each command, made from the table of commands and their flags.
func man(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "man", "DIR")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	list, err := spellings(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(words[0], 0o755); err != nil {
		return fmt.Errorf("%w: choose a directory of your own, or use sudo", err)
	}
	pages := map[string][]byte{"kloop": manIndex()}
	for i := range list {
		pages["kloop-"+list[i].name] = list[i].manual()
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(words[0], name+".1"), text, 0o644); err != nil {
			return fmt.Errorf("write the manual: %w: choose a directory of your own, or use sudo", err)
		}
	}
	_, err = fmt.Fprintf(std.out, "%d pages in %s\n", len(pages), words[0])
	return err
}

// roff is text as the formatter of manual pages takes it: backslashes and hyphens mean something to it, and so do dots and quotes at
// the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func manHead(b *bytes.Buffer, name, about string) {
	fmt.Fprintf(b, ".TH %s 1 \"\" \"kloop %s\" \"kloop\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff(name)),
		httpapi.DefaultVersion(nil).GitVersion, roff(name), roff(about))
}

func manIndex() []byte {
	var b bytes.Buffer
	manHead(&b, "kloop", "Kubernetes in one small binary")
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B kloop\nCOMMAND [flags]\n")
	for _, g := range groups() {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(roff(g.title)))
		for _, c := range g.list {
			fmt.Fprintf(&b, ".TP\n.BR kloop\\-%s (1)\n%s\n", roff(c.name), roff(c.about))
		}
	}
	fmt.Fprintf(&b, ".SH OUTPUT\n%s\n.SH EXIT STATUS\n%s\n", roff(outputText), roff(exitText))
	return b.Bytes()
}

// What manual pages say of all commands; docs/output.md says it at length.
const (
	outputText = "Commands that tell facts answer with -o json or -o yaml, too: one object; lists are its items. Both hold the same."
	exitText   = "0 for success, 1 for a failure, 2 for wrong usage, 3 when something is stuck (why, gaps, plan), " +
		"4 when plan --no-outage finds an outage."
)

// manual is the page of a command.
func (s *spelling) manual() []byte {
	var b bytes.Buffer
	manHead(&b, "kloop-"+s.name, s.about)
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B kloop %s\n%s\n", roff(s.name), roff(s.args))
	if len(s.flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
	}
	for _, f := range s.flags {
		what, about := flag.UnquoteUsage(f)
		fmt.Fprintf(&b, ".TP\n.BI %s \" %s\"\n%s", roff(dashes(f.Name)), roff(what), roff(about))
		if def := shownDefault(f); def != "" {
			fmt.Fprintf(&b, " (default %s)", roff(def))
		}
		b.WriteString("\n")
	}
	if len(s.says.words) > 0 {
		fmt.Fprintf(&b, ".SH OUTPUT\n%s\n", roff(outputText))
	}
	fmt.Fprintf(&b, ".SH EXIT STATUS\n%s\n", roff(exitText))
	fmt.Fprintf(&b, ".SH EXAMPLE\n.nf\n%s\n.fi\n.SH SEE ALSO\n.BR kloop (1)\n", roff(s.example))
	return b.Bytes()
}
