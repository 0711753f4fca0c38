package applyset

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestRead(t *testing.T) {
	const good = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: %s}\n"
	obj := func(name string) string { return strings.ReplaceAll(good, "%s", name) }
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // names of objects with their files
		bad   string // a file and a part of what is wrong with it
		lost  []string
		safe  []string
	}{
		{name: "in the order of names, below directories too", files: map[string]string{"b.yaml": obj("b"), "a/z.yml": obj("z"),
			"c.json": `{"apiVersion":"v1","kind":"A","metadata":{"name":"c"}}`},
			want: "a/z.yml:z b.yaml:b c.json:c", lost: []string{"me:d.yaml", "me:b.yaml"}, safe: []string{"you:d.yaml", "d.yaml", ""}},
		{name: "nothing else", files: map[string]string{
			"b.txt": obj("b"), ".c.yaml": obj("c"), ".git/d.yaml": obj("d"), "e.yaml~": obj("e")}},
		{name: "several documents", files: map[string]string{"a.yaml": "---\n# nothing\n---\n" + obj("a") + "---\n---\n" + obj("b")},
			want: "a.yaml:a a.yaml:b"},
		{name: "held", files: map[string]string{"a.yaml": obj("a"), "a.yaml.skip": ""}, safe: []string{"me:a.yaml"}},
		{name: "no name", files: map[string]string{"a.yaml": obj("a") + "---\napiVersion: v1\nkind: Pod"},
			bad: "a.yaml without a name", safe: []string{"me:a.yaml"}},
		{name: "no kind", files: map[string]string{"a.yaml": "a: b"}, bad: "a.yaml without apiVersion or kind"},
		{name: "twice", files: map[string]string{"a.yaml": "kind: A\nkind: B"}, bad: "a.yaml already set"},
		{name: "no object", files: map[string]string{"a.yaml": "- 1\n"}, bad: "a.yaml cannot unmarshal"},
		{name: "no YAML", files: map[string]string{"a.yaml": "a: {"}, bad: "a.yaml decode YAML"},
		{name: "a list of what is no object", files: map[string]string{"a.yaml": "kind: List\napiVersion: v1\nitems: [1]"},
			bad: "a.yaml "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			l, err := List(root)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Read(root, l, "me")
			if err != nil {
				t.Fatal(err)
			}
			var have []string
			for _, w := range r.Want {
				have = append(have, strings.TrimPrefix(w.Origin, "me:")+":"+w.Object.GetName())
			}
			if got := strings.Join(have, " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			file, part, _ := strings.Cut(tt.bad, " ")
			if err := r.Bad[file]; (err != nil) != (tt.bad != "") || err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("bad: %v, want %q", r.Bad, tt.bad)
			}
			lost := r.Lost("me")
			for _, origin := range tt.lost {
				if !lost(origin) {
					t.Errorf("%q is not lost", origin)
				}
			}
			for _, origin := range tt.safe {
				if lost(origin) {
					t.Errorf("%q is lost", origin)
				}
			}
		})
	}
}
