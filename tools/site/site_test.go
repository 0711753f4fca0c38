package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	link = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	id   = regexp.MustCompile(`\bid="([^"]*)"`)
)

// Every page of the repository is on the site, every link within the site has its file and its heading, and search knows the words.
func TestRepository(t *testing.T) {
	out := t.TempDir()
	const code = "https://code.example/"
	n, err := build(os.DirFS("../.."), out, code)
	if err != nil {
		t.Fatal(err)
	}
	if n < 30 {
		t.Errorf("%d pages", n)
	}
	files := os.DirFS(out)
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".html" {
			follow(t, files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(out, "index.js"))
	if err != nil || !strings.Contains(string(index), `"u":"docs/network.html#`) || !strings.Contains(string(index), "LoadBalancer") {
		t.Errorf("search knows %d bytes, %v", len(index), err)
	}
}

// follow follows the links of a page that stay on the site.
func follow(t *testing.T, files fs.FS, name string) {
	t.Helper()
	text := read(t, files, name)
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		to, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
			continue
		}
		target := name
		if to != "" {
			target = path.Join(path.Dir(name), to)
		}
		there := read(t, files, target)
		if anchor == "" {
			continue
		}
		known := false
		for _, i := range id.FindAllStringSubmatch(there, -1) {
			known = known || i[1] == anchor
		}
		if !known {
			t.Errorf("%s: %s has no heading for it", name, m[1])
		}
	}
}

func read(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	data, err := fs.ReadFile(files, name)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// A link that leads nowhere is an error that names page and link; files that are no pages lead to the code.
func TestLinks(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"[a](docs/a.md)", `href="docs/a.html"`},
		{"[a](docs/a.md#two-words)", `href="docs/a.html#two-words"`},
		{"[a](docs)", `href="docs/index.html"`},
		{"[m](main.go)", `href="https://code/main.go"`},
		{"[x](https://example.org/a.md)", `href="https://example.org/a.md"`},
		{"![p](docs/p.svg)", `src="docs/p.svg"`},
		{"[a](docs/none.md)", "README.md: docs/none.md leads nowhere"},
		{"[a](docs/a.md#none)", "README.md: docs/a.md#none: the page has no heading for #none"},
		{"![p](docs/none.svg)", "README.md: docs/none.svg leads nowhere"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			files := fstest.MapFS{"docs/README.md": {Data: []byte("# Pages")}, "docs/a.md": {Data: []byte("# A\n\n## Two `words`!\n\ntext")},
				"main.go": {}, "docs/p.svg": {Data: []byte("<svg/>")}}
			for _, name := range top {
				files[name] = &fstest.MapFile{Data: []byte("# " + name)}
			}
			files["README.md"] = &fstest.MapFile{Data: []byte(tt.text)}
			out := t.TempDir()
			_, err := build(files, out, "https://code/")
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = read(t, os.DirFS(out), "index.html")
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
			}
		})
	}
}
