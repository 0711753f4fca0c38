package node

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestLookUp(t *testing.T) {
	for _, c := range []struct{ text, key, want, wrong string }{
		{text: "  A='1'\n\tB='2'\nC='3'", key: "B", want: "2"},
		{text: "# note\n\n \t\n  # more\nA='x'\r\nB='y'\r\n", key: "B", want: "y"},
		{text: "A='a=b#c \"d\" $HOME ${X} \\n' # note", key: "A", want: "a=b#c \"d\" $HOME ${X} \\n"},
		{text: "A='one\n\n # two\nB=three '\nB='4'\n", key: "A", want: "one\n\n # two\nB=three "},
		{text: "A='one\ntwo'\nB='4'", key: "B", want: "4"},
		{text: "A='1'\nA='2'\nnonsense", key: "A", want: "1"},
		{text: "A=''", key: "A", want: ""},
		{text: "A ='1'\n", key: "A", wrong: "line 1: whitespace before '=' is not allowed"},
		{text: "A='1\n2'\nB= '1'\n", key: "B", wrong: "line 3: value must be enclosed in single"},
		{text: "A=1", key: "A", wrong: "at line 1: value must be enclosed in single quotes"},
		{text: "A=\"1\"", key: "A", wrong: "value must be enclosed in single quotes"},
		{text: "A='1''2'", key: "A", wrong: "unexpected content after closing quote"},
		{text: "A='1'#2", key: "A", wrong: "unexpected content after closing quote"},
		{text: "A='it\\'s'", key: "A", wrong: "unexpected content after closing quote"},
		{text: "A='1'\nB='2\n", key: "B", wrong: "at line 2: unclosed single quote"},
		{text: "A='1'\n\nnonsense\nB='2'", key: "B", wrong: "format at line 3"},
		{text: "='1'", key: "A", wrong: "at line 1"},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, found, err := lookUp(c.text, c.key)
			switch {
			case c.wrong == "" && (err != nil || !found || got != c.want):
				t.Errorf("%q: %q, %v, %v, want %q", c.text, got, found, err, c.want)
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%q: %v, want %q", c.text, err, c.wrong)
			}
		})
	}
	for _, text := range []string{"", "\n", "# A='1'", "B='1'"} {
		if _, found, err := lookUp(text, "A"); found || err != nil {
			t.Errorf("%q: found is %v, %v", text, found, err)
		}
	}
}

func FuzzLookUp(f *testing.F) {
	f.Add("A='1'\n#\nB='2\n3' # x", "B")
	f.Fuzz(func(t *testing.T, text, key string) {
		if v, found, err := lookUp(text, key); found && (err != nil || !strings.Contains(text, key+"='"+v+"'")) {
			t.Errorf("%q in %q: %q, %v", key, text, v, err)
		}
	})
}

// What a container left in the volume can't make the agent read other files, wait, or read without end.
func TestFromFile(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	put := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "a/b.env"), "A='1'\n")
	put(filepath.Join(dir, "large"), "A='"+strings.Repeat("x", envFileMax)+"'")
	put(filepath.Join(out, "secret"), "A='no'")
	for link, to := range map[string]string{"out": filepath.Join(out, "secret"), "up": "../../x", "in": "a/b.env", "none": "nowhere"} {
		t.Run(link, func(t *testing.T) {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	yes := true
	for _, c := range []struct {
		volume, path, key string
		optional          *bool
		want, wrong       string
	}{
		{"v", "a/b.env", "A", nil, "1", ""}, {"v", "in", "A", nil, "1", ""},
		{"v", "a/b.env", "B", nil, "", `environment variable key "B" not found in file "a/b.env"`},
		{"v", "a/b.env", "B", &yes, "", ""}, {"v", "gone", "A", &yes, "", ""}, {"v", "none", "A", &yes, "", ""},
		{"v", "gone", "A", nil, "", "no such file"}, {"w", "gone", "A", &yes, "", "cannot find the volume"},
		{"v", "out", "A", &yes, "", "escapes"}, {"v", "up", "A", &yes, "", "escapes"},
		{"v", "fifo", "A", &yes, "", "not a regular file"}, {"v", "a", "A", &yes, "", "not a regular file"},
		{"v", "large", "A", &yes, "", "larger than"},
	} {
		t.Run(c.volume, func(t *testing.T) {
			ref := &corev1.FileKeySelector{VolumeName: c.volume, Path: c.path, Key: c.key, Optional: c.optional}
			got, found, err := fromFile(ref, map[string]string{"v": dir})
			switch {
			case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("%+v: %v, want %q", c, err, c.wrong)
			case c.wrong == "" && (err != nil || got != c.want || found != (c.want != "")):
				t.Errorf("%+v: %q, %v, %v", c, got, found, err)
			}
		})
	}
}
