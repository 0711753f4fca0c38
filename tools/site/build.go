package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

var (
	//go:embed page.html
	frame string
	//go:embed style.css
	style []byte
	//go:embed search.js
	search []byte
)

var layout = template.Must(template.New("page").Parse(frame))

// top are the pages that do not lie below docs.
var top = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}

// A site is all pages by their place in the repository.
type site struct {
	files fs.FS
	code  string // what stands before the name of a file that is no page
	pages map[string]*page
	order []string
	used  map[string]bool // pictures
}

// build writes the site and says how many pages it has.
func build(files fs.FS, out, code string) (int, error) {
	s := &site{files: files, code: code, pages: map[string]*page{}, used: map[string]bool{}}
	if err := s.read(); err != nil {
		return 0, err
	}
	var errs []error
	for _, name := range s.order {
		errs = append(errs, s.render(s.pages[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	return len(s.order), s.write(out)
}

// read finds the pages: group by group, those of the top in their own order.
func (s *site) read() error {
	names := slices.Clone(top)
	err := fs.WalkDir(s.files, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("look for pages: %w", err)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	for _, name := range names {
		text, err := fs.ReadFile(s.files, name)
		if err != nil {
			return fmt.Errorf("read a page: %w", err)
		}
		s.pages[name] = parse(name, text)
	}
	s.order = names
	return nil
}

// write makes the files of the site.
func (s *site) write(out string) error {
	for _, name := range s.order {
		p := s.pages[name]
		var b strings.Builder
		err := layout.Execute(&b, map[string]any{"Title": p.title, "Body": template.HTML(p.body), "Up": up(p.out), "Nav": s.nav(p)})
		if err != nil {
			return fmt.Errorf("lay out %s: %w", name, err)
		}
		if err := put(out, p.out, []byte(b.String())); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.used)) {
		data, err := fs.ReadFile(s.files, name)
		if err != nil {
			return fmt.Errorf("read a picture: %w", err)
		}
		if err := put(out, name, data); err != nil {
			return err
		}
	}
	index, err := s.index()
	return errors.Join(err, put(out, "style.css", style), put(out, "search.js", search), put(out, "index.js", index))
}

func put(dir, name string, data []byte) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// index is the text of all sections, as a script: a page that was opened from a disk may read no other files.
func (s *site) index() ([]byte, error) {
	var all []section
	for _, name := range s.order {
		all = append(all, s.pages[name].sections...)
	}
	text, err := json.Marshal(all)
	return append([]byte("window.sections = "), append(text, ";\n"...)...), err
}

// A stop is a line of the navigation.
type stop struct {
	Group, Title, Href string
	Here               bool
}

// nav lists the pages as one of them links to them.
func (s *site) nav(from *page) (list []stop) {
	last := ""
	for _, name := range s.order {
		p, group := s.pages[name], path.Base(path.Dir(name))
		if n := rank(name); n < len(groups) {
			group = groups[n].title
		}
		line := stop{Title: p.title, Href: up(from.out) + p.out, Here: p == from}
		if group != last {
			line.Group, last = group, group
		}
		list = append(list, line)
	}
	return list
}

// groups are the parts of the navigation, in their order.
var groups = []struct{ dir, title string }{
	{".", "kloop"}, {"docs/start", "Starts"}, {"docs", "Pages"}, {"docs/monitoring", "Monitoring"}, {"docs/adr", "Decisions"},
}

// rank is the place of a page's group.
func rank(name string) int {
	for i, g := range groups {
		if g.dir == path.Dir(name) {
			return i
		}
	}
	return len(groups)
}

// up leads from a file of the site to its top.
func up(name string) string { return strings.Repeat("../", strings.Count(name, "/")) }
