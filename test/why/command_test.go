package why_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// ask runs the command that a person types about the situation, and holds what it prints to what is expected.
func (w *world) ask(s situation) (string, error) {
	w.t.Helper()
	gr, name, err := convergence.ParseName(s.Ask)
	if err != nil {
		w.fatal("%v", err)
	}
	var out, errs bytes.Buffer
	if code := cli.Run(w.t.Context(), strings.NewReader(""), &out, &errs, []string{"kloop", "why", "--kubeconfig", w.config, "-n",
		s.Name, gr.String(), name}); code != 3 && s.State != converge.Latent {
		return "", fmt.Errorf("kloop why ends with %d: %s", code, &errs)
	}
	text := out.String()
	first, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(first, s.Says) {
		return text, fmt.Errorf("the first line lacks %q:\n%s", s.Says, text)
	}
	for _, want := range []string{"(" + s.Cause + ")", s.Owner, "  next     ", s.Next} {
		if !strings.Contains(text, want) {
			return text, fmt.Errorf("the screen lacks %q:\n%s", want, text)
		}
	}
	return text, nil
}

// show asks until the screen is as expected, and as docs/why.md shows it if it does: what is told changes with time.
func (w *world) show(s situation, page *page) {
	w.t.Helper()
	w.until("the right screen", func() error {
		text, err := w.ask(s)
		if err != nil {
			return err
		}
		return page.holds(s.Name, text)
	})
}

const docs = "../../docs/why.md"

// block is what a page shows of a situation: a comment that names it, and the command with its output.
var block = regexp.MustCompile("(?s)<!-- situation: ([a-z-]+) -->\n```\n(\\$ kloop why [^\n]*)\n(.*?)```\n")

// A page is docs/why.md, which shows what is told of some situations; with KLOOP_WRITE=1 what is told is written there.
type page struct {
	text  string
	write bool
	told  map[string]string // by situation
}

func readDocs(t *testing.T) *page {
	t.Helper()
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	return &page{string(text), os.Getenv("KLOOP_WRITE") != "", map[string]string{}}
}

// holds notes what is told of a situation, and says how it differs from what the page shows.
func (p *page) holds(name, text string) error {
	p.told[name] = text
	for _, m := range block.FindAllStringSubmatch(p.text, -1) {
		if m[1] == name && !p.write && steady(text) != steady(m[3]) {
			return fmt.Errorf(
				"docs/why.md shows of the situation %s what kloop does not say (KLOOP_WRITE=1 go test ./test/why -run TestSituations rewrites "+
					"it):\n%s\nit says:\n%s", name, steady(m[3]), steady(text))
		}
	}
	return nil
}

// check holds the situations that the page shows to those that there are, and writes it if that is wanted.
func (p *page) check(t *testing.T) {
	seen := 0
	next := block.ReplaceAllStringFunc(p.text, func(old string) string {
		m := block.FindStringSubmatch(old)
		seen++
		text, ok := p.told[m[1]]
		if !ok {
			t.Errorf("there is no situation %q", m[1])
		}
		if !ok || steady(text) == steady(m[3]) {
			return old
		}
		return "<!-- situation: " + m[1] + " -->\n```\n" + m[2] + "\n" + text + "```\n"
	})
	if seen < 12 {
		t.Errorf("docs/why.md shows %d situations", seen)
	}
	if p.write {
		if err := os.WriteFile(docs, []byte(next), 0o644); err != nil { //nolint:gosec // as all files of the repository
			t.Fatal(err)
		}
	}
}

// What differs from run to run: names that are made up, counts and times.
var (
	madeUp = regexp.MustCompile(`\b([a-z]+)-[0-9a-f]{7,10}(-[0-9a-z]{5})?\b|\b([a-z]+)-[0-9a-z]{5}\b`)
	counts = regexp.MustCompile(`\d+`)
	again  = regexp.MustCompile(
		`, in (N[hms])+|, now|\(N times since [^)]*\)|\((once|twice|N times)\)|\(and N more like it\)|, ` +
			`for (N[hms])+|(less than a|N) minutes? ago`)
)

// steady is an output without what differs from run to run.
func steady(text string) string {
	text = madeUp.ReplaceAllString(text, "$1$3-*")
	text = counts.ReplaceAllString(text, "N")
	text = again.ReplaceAllString(text, "")
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
