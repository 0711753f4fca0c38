package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A page is one file in Markdown.
type page struct {
	name, out string // below the repository, below the site
	source    []byte
	doc       ast.Node
	title     string
	anchors   map[string]bool
	sections  []section
	body      string
}

// A section is a unit of search: a heading with what stands below it.
type section struct {
	Page string `json:"p"`
	Head string `json:"h"`
	URL  string `json:"u"`
	Text string `json:"t"`
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func parse(name string, source []byte) *page {
	p := &page{name: name, source: source, anchors: map[string]bool{}, out: strings.TrimSuffix(name, ".md") + ".html"}
	switch path.Base(name) {
	case "README.md":
		p.out = path.Join(path.Dir(name), "index.html")
	}
	p.doc = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids(p.anchors)))))
	p.cut()
	return p
}

// cut finds the page's title and its sections.
func (p *page) cut() {
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		words := plain(n, p.source)
		h, ok := n.(*ast.Heading)
		if !ok {
			if len(p.sections) > 0 {
				last := &p.sections[len(p.sections)-1]
				last.Text += words + " "
			}
			continue
		}
		if p.title == "" {
			p.title = words
		}
		id, _ := h.AttributeString("id")
		anchor, _ := id.([]byte)
		p.sections = append(p.sections, section{Page: p.title, Head: words, URL: p.out + "#" + string(anchor)})
	}
	if p.title == "" {
		p.title = p.name
	}
}

// plain is the text below a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, enter bool) (ast.WalkStatus, error) { // the function returns no error
		switch n := n.(type) {
		case *ast.Text:
			if enter {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := 0; enter && i < n.Lines().Len(); i++ {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
		default:
			if !enter && n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// render makes the page's HTML, with links as they are on the site.
func (s *site) render(p *page) error {
	err := ast.Walk(p.doc, func(n ast.Node, enter bool) (ast.WalkStatus, error) {
		if !enter {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Link:
			n.Destination, err = s.lead(p, string(n.Destination), false)
		case *ast.Image:
			n.Destination, err = s.lead(p, string(n.Destination), true)
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, p.source, p.doc); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.body = b.String()
	return nil
}

// lead returns the target of a page's link on the site: to another page, or to where the code can be read.
func (s *site) lead(p *page, to string, picture bool) ([]byte, error) {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return []byte(to), err
	}
	name := p.name
	if u.Path != "" {
		name = path.Join(path.Dir(p.name), u.Path)
	}
	at := s.pages[name]
	if at == nil {
		at = s.pages[path.Join(name, "README.md")]
	}
	switch {
	case at != nil && (u.Fragment == "" || at.anchors[u.Fragment]):
		u.Path = up(p.out) + at.out
		return []byte(u.String()), nil
	case at != nil:
		return nil, fmt.Errorf("%s: the page has no heading for #%s", to, u.Fragment)
	}
	if _, err := fs.Stat(s.files, name); err != nil {
		return nil, fmt.Errorf("%s leads nowhere: %w", to, err)
	}
	if picture {
		s.used[name] = true
		return []byte(up(p.out) + name), nil
	}
	return []byte(s.code + name), nil
}

// ids names headings as GitHub does: letters, digits, hyphens and underscores in lower case; the second of a name gets -1.
type ids map[string]bool

// Generate implements parser.IDs.
func (i ids) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(string(bytes.TrimSpace(value))) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	name := b.String()
	for n := 1; i[name]; n++ {
		name = fmt.Sprintf("%s-%d", b.String(), n)
	}
	i[name] = true
	return []byte(name)
}

// Put implements parser.IDs.
func (i ids) Put(value []byte) { i[string(value)] = true }
