package cli

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/cli/settings"
)

// A namedFile is a row of testdata/named.yaml.
type namedFile struct {
	Flag, More, Good, Broken, Wrong string
	Elsewhere                       bool // what it says of servers that are not there is found out only later
}

func namedFiles(t *testing.T) (list []namedFile) {
	t.Helper()
	text, err := os.ReadFile("testdata/named.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// credentials returns what stands for the words in testdata/named.yaml.
func credentials(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	made, err := pki.Open(pki.Config{Dir: dir, Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := made.CA.Issue(pki.Leaf{User: "u", Hosts: []string{"127.0.0.1"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"CERT": string(cert), "KEY": string(key)}
	for word, name := range map[string]string{"CA": "ca.crt", "SIGN": "sa.key", "PUB": "sa.pub"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		words[word] = string(text)
	}
	return words
}

// TestNamedFiles: `kloop config show` refuses of the files that settings name what `kloop up` refuses, in the same words, and takes what it
// takes. Neither quotes a secret.
func TestNamedFiles(t *testing.T) {
	for _, f := range namedFiles(t) {
		t.Run(f.Flag, func(t *testing.T) {
			words, dir := credentials(t), t.TempDir()
			file := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(cmp.Or(words[text], text)), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			args := strings.Fields("--store memory --node none --listen 127.0.0.1:0 --log error --data-dir " + filepath.Join(dir, "data"))
			more, inner, beside := strings.Cut(f.More, " FILE(")
			args = append(args, strings.Fields(more)...)
			if beside {
				args = append(args, file("beside", strings.TrimSuffix(inner, ")")))
			}
			for name, text := range map[string]string{"missing": "", "broken": f.Broken, "wrong": f.Wrong, "good": f.Good} {
				path := filepath.Join(dir, name)
				if text != "" {
					file(name, text)
				}
				namedAlike(t, name, append(args, "--"+f.Flag, path), name == "good", f.Elsewhere)
			}
		})
	}
}

// ownWords is what each command says of itself.
var ownWords = regexp.MustCompile(`^kloop [a-z ]+: | \(kloop [-a-z ]+\)`)

// namedAlike compares what both commands say of the flags.
func namedAlike(t *testing.T, name string, args []string, good, elsewhere bool) {
	t.Helper()
	var told [2]string
	for i, words := range [][]string{{"config", "show"}, {"up"}} {
		if i == 1 && good && elsewhere {
			continue
		}
		ctx, stop := context.WithCancel(t.Context())
		out, errs := &watcher{text: "is ready", then: stop}, &bytes.Buffer{}
		code := Run(ctx, nil, out, errs, append(append([]string{"kloop"}, words...), args...))
		stop()
		if want := map[bool]int{false: 2}[good]; code != want || strings.Count(errs.String(), "\n") != map[bool]int{false: 1}[good] {
			t.Errorf("%s: %s ends with %d: %s", name, words, code, errs)
		}
		if strings.Contains(out.String()+errs.String(), "S3CRET") {
			t.Errorf("%s: %s tells a secret: %s%s", name, words, out, errs)
		}
		told[i] = ownWords.ReplaceAllString(errs.String(), "")
	}
	if !good && told[0] != told[1] {
		t.Errorf("%s: config show says\n%s\nup says\n%s", name, told[0], told[1])
	}
}

// Every flag that names a file has a row.
func TestNamedFilesAreAll(t *testing.T) {
	rows := map[string]bool{}
	for _, f := range namedFiles(t) {
		rows[f.Flag] = true
	}
	o := settings.Defaults()
	fs := flag.NewFlagSet("up", flag.ContinueOnError)
	settings.New(&o).Bind(fs, settings.Up|settings.Server)
	fs.VisitAll(func(f *flag.Flag) {
		if err := f.Value.Set("no/such/file"); err != nil && strings.Contains(err.Error(), "there is no file") && !rows[f.Name] {
			t.Errorf("testdata/named.yaml has no row for --%s", f.Name)
		}
	})
}
