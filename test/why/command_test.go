package why_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/cli"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// ask runs the command that a person types about the situation, and holds what it prints to what is expected.
func (w *world) ask(s situation) string {
	w.t.Helper()
	gr, name, err := convergence.ParseName(s.Ask)
	if err != nil {
		w.fatal("%v", err)
	}
	var out, errs bytes.Buffer
	if code := cli.Run(w.t.Context(), strings.NewReader(""), &out, &errs, []string{"kloop", "why", "--kubeconfig", w.config, "-n", s.Name, gr.String(), name}); code != 0 {
		w.fatal("kloop why ends with %d: %s", code, &errs)
	}
	text := out.String()
	first, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(first, s.Says) {
		w.t.Errorf("the first line lacks %q", s.Says)
	}
	for _, want := range []string{"(" + s.Cause + ")", s.Owner, "  next     ", s.Next} {
		if !strings.Contains(text, want) {
			w.t.Errorf("the screen lacks %q", want)
		}
	}
	if w.t.Failed() {
		w.t.Log(text)
	}
	return text
}

const docs = "../../docs/why.md"

// block is what a page shows of a situation: a comment that names it, and the command with its output.
var block = regexp.MustCompile("(?s)<!-- situation: ([a-z-]+) -->\n```\n(\\$ kloop why [^\n]*)\n(.*?)```\n")

// inDocs holds the outputs that docs/why.md shows to those that were just printed; with KLOOP_WRITE=1 it writes them there.
func inDocs(t *testing.T, list []situation, told map[string]string) {
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	next := block.ReplaceAllStringFunc(string(page), func(old string) string {
		m := block.FindStringSubmatch(old)
		seen++
		text, ok := told[m[1]]
		switch {
		case !ok:
			t.Errorf("there is no situation %q", m[1])
			return old
		case steady(text) == steady(m[3]):
			return old
		case os.Getenv("KLOOP_WRITE") == "":
			t.Errorf("docs/why.md shows of the situation %s what kloop does not say (KLOOP_WRITE=1 go test ./test/why -run TestSituations rewrites it):\n%s\nit says:\n%s", m[1], steady(m[3]), steady(text))
		}
		return "<!-- situation: " + m[1] + " -->\n```\n" + m[2] + "\n" + text + "```\n"
	})
	if seen < 12 {
		t.Errorf("docs/why.md shows %d situations", seen)
	}
	if os.Getenv("KLOOP_WRITE") != "" {
		if err := os.WriteFile(docs, []byte(next), 0o644); err != nil { //nolint:gosec // as all files of the repository
			t.Fatal(err)
		}
	}
}

// What differs from run to run: names that are made up, counts and times.
var (
	madeUp = regexp.MustCompile(`\b([a-z]+)-[0-9a-f]{7,10}(-[0-9a-z]{5})?\b|\b([a-z]+)-[0-9a-z]{5}\b`)
	counts = regexp.MustCompile(`\d+`)
	again  = regexp.MustCompile(`, in (N[hms])+|, now|\(N times since [^)]*\)|\((once|twice|N times)\)|\(and N more like it\)|, for (N[hms])+|(less than a|N) minutes? ago`)
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
