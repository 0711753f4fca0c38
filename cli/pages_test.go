package cli

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// typedLine is a command of kloop as pages have it, to the end of what is typed.
var typedLine = regexp.MustCompile("(?:^|[\\s`$(/])kloop ([a-z]+)((?: [^`#|;&<>)]*)?)")

// Every command in a page is one of the table, with flags that it has: what a page shows can be typed.
func TestCommandsInPages(t *testing.T) {
	list, err := spellings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]spelling{}
	for _, s := range list {
		byName[s.name] = s
	}
	read := 0
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if d.IsDir() || filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md" {
			return nil
		}
		text, err := os.ReadFile(path)
		for at, line := range typedLines(string(text)) {
			for _, m := range typedLine.FindAllStringSubmatch(line, -1) {
				read++
				if wrong := wrongLine(byName, m[1], strings.Fields(m[2])); wrong != "" {
					t.Errorf("%s:%d: kloop %s%s: %s", path, at+1, m[1], m[2], wrong)
				}
			}
		}
		return err
	})
	if err != nil || read < 200 {
		t.Errorf("%d commands were found: %v", read, err)
	}
}

// typedLines are a page's lines, those of prose without what stands outside of backquotes.
func typedLines(page string) []string {
	lines, fenced := strings.Split(page, "\n"), false
	for i, l := range lines {
		switch {
		case strings.HasPrefix(strings.TrimSpace(l), "```"):
			fenced = !fenced
			lines[i] = ""
		case !fenced && !strings.HasPrefix(l, "    "):
			var code []string
			for n, part := range strings.Split(l, "`") {
				if n%2 == 1 {
					code = append(code, part)
				}
			}
			lines[i] = strings.Join(code, " `")
		}
	}
	return lines
}

// wrongLine says what is wrong with a command line; "": it can be typed.
func wrongLine(known map[string]spelling, name string, words []string) string {
	if slices.Contains([]string{"is", "as", "and", "kubectl"}, name) { // sentences; another program's flags
		return ""
	}
	s, ok := known[name]
	if !ok {
		return "there is no such command"
	}
	for _, w := range words {
		flagged := strings.TrimLeft(strings.Trim(w, "[](),.:'\""), "-")
		flagged, _, _ = strings.Cut(flagged, "=")
		switch {
		case w == "--":
			return "" // flags of another command
		case !strings.HasPrefix(strings.TrimLeft(w, "[("), "-"), flagged == "", flagged == "h", flagged == "help":
		case !slices.ContainsFunc(s.flags, func(f *flag.Flag) bool { return f.Name == flagged }):
			return "there is no flag " + w
		}
	}
	return ""
}
