package provider

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

// open has one plugin: a script that counts its calls, keeps what it read, and says what stands in the file answer.
func open(t *testing.T, more, script string) (*Plugins, string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "known"), "#!/bin/sh\necho >> "+dir+"/calls\ncat > "+dir+"/asked\n"+script+"\n", 0o755)
	write(t, filepath.Join(dir, "conf.yaml"), head+"- name: known\n  matchImages: ['*.example.com:5000/team', 'other.example.com']\n"+
		"  defaultCacheDuration: 1m\n  apiVersion: "+v1+"\n"+more, 0o600)
	p, err := Open(filepath.Join(dir, "conf.yaml"), dir)
	if err != nil {
		t.Fatal(err)
	}
	return p, dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func says(key string) string {
	return `echo '{"apiVersion":"` + v1 + `","kind":"CredentialProviderResponse","cacheKeyType":"` + key +
		`","auth":{"a.example.com:5000":{"username":"u","password":"'$SECRET'"}}}'`
}

const secret = "  env: [{name: SECRET, value: pw}]\n"

func lines(t *testing.T, path string) int {
	t.Helper()
	text, _ := os.ReadFile(path) // nobody asked yet
	return strings.Count(string(text), "\n")
}

// TestCache asks for images of one registry and another: how often the program runs depends on what it says that its answer is for.
func TestCache(t *testing.T) {
	for key, want := range map[string]int{"Image": 3, "Registry": 2, "Global": 1} {
		p, dir := open(t, secret, says(key))
		now := time.Now()
		p.Now = func() time.Time { return now }
		for _, image := range []string{"a.example.com:5000/team/x", "a.example.com:5000/team/x", "a.example.com:5000/team/y",
			"other.example.com/z",
			"a.example.com/team/x", "b.a.example.com:5000/team/x", "a.example.com:5000/x"} { // the last three are nobody's
			grants, err := p.Ask(t.Context(), image, Caller{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(image, "team/y") && (len(grants) != 1 || grants[0].Logins["a.example.com:5000"] != Login{"u", "pw"}) {
				t.Errorf("%s: %+v", image, grants)
			}
		}
		if n := lines(t, dir+"/calls"); n != want {
			t.Errorf("cacheKeyType %s: the program ran %d times, want %d", key, n, want)
		}
		now = now.Add(time.Hour)
		if _, err := p.Ask(t.Context(), "a.example.com:5000/team/x", Caller{}); err != nil || lines(t, dir+"/calls") != want+1 {
			t.Errorf("cacheKeyType %s: an answer of an hour ago is good for a minute: %v", key, err)
		}
	}
}

// TestAsked says what the program reads, and that those who ask at once share an answer.
func TestAsked(t *testing.T) {
	p, dir := open(t, secret, "sleep 0.3\n"+says("Image"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if g, err := p.Ask(t.Context(), "a.example.com:5000/team/x", Caller{}); err != nil || len(g) != 1 {
				t.Errorf("%v, %v", g, err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(dir + "/asked")
	want := `{"kind":"CredentialProviderRequest","apiVersion":"` + v1 + `","image":"a.example.com:5000/team/x"}`
	if err != nil || string(text) != want {
		t.Errorf("it reads %s, %v; want %s", text, err, want)
	}
	if n := lines(t, dir+"/calls"); n != 1 {
		t.Errorf("twenty pods at once had it run %d times", n)
	}
}

// TestAccounts has a plugin that answers for service accounts.
func TestAccounts(t *testing.T) {
	p, dir := open(t, secret+"  tokenAttributes: {serviceAccountTokenAudience: me, "+
		"cacheType: ServiceAccount, requireServiceAccount: true, "+
		"requiredServiceAccountAnnotationKeys: [role], optionalServiceAccountAnnotationKeys: [more]}\n", says("Registry"))
	ask := func(uid string, notes map[string]string) []Grant {
		t.Helper()
		g, err := p.Ask(t.Context(), "a.example.com:5000/team/x", Caller{
			Account: func() (*corev1.ServiceAccount, error) {
				return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Annotations: notes}}, nil
			},
			Token: func(audience string) (string, error) { return "token of " + uid + " for " + audience, nil }})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if g, err := p.Ask(t.Context(), "a.example.com:5000/team/x", Caller{}); err != nil || len(g) != 0 {
		t.Errorf("a pod without an account gets %v, %v", g, err)
	}
	if g := ask("a", map[string]string{"other": "x"}); len(g) != 0 {
		t.Errorf("an account without the annotation gets %v", g)
	}
	if g := ask("a", map[string]string{"role": "r", "other": "x"}); len(g) != 1 || g[0].Account == nil || g[0].Account.Name != "a" {
		t.Errorf("an account with the annotation gets %+v", g)
	}
	text, _ := os.ReadFile(dir + "/asked") // compared below
	for _, want := range []string{`"serviceAccountToken":"token of a for me"`, `"serviceAccountAnnotations":{"role":"r"}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it reads %s, without %s", text, want)
		}
	}
	ask("a", map[string]string{"role": "r"})
	ask("a", map[string]string{"role": "another"})
	if n := lines(t, dir+"/calls"); n != 2 {
		t.Errorf("two roles had it run %d times", n)
	}
}

// TestBadAnswers has programs that misbehave. No error tells what they wrote to their output: it may hold passwords.
func TestBadAnswers(t *testing.T) {
	for script, want := range map[string]string{
		"echo complaint >&2; exit 3":        "exit status 3: complaint",
		"echo secret":                       "no JSON",
		"echo '{}'":                         `kind ""`,
		says("Everything"):                  `cacheKeyType "Everything"`,
		"sleep 60 & sleep 60":               "did not answer within 200ms",
		"head -c 2000000 /dev/zero; exit 0": "longer than",
		strings.Replace(says("Image"), "io/v1", "io/v1beta1", 1): "apiVersion",
	} {
		p, _ := open(t, "", script)
		p.Patience = 200 * time.Millisecond
		if !strings.Contains(want, "within") {
			p.Patience = time.Minute
		}
		g, err := p.Ask(t.Context(), "other.example.com/x", Caller{})
		if err == nil || len(g) != 0 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v; want %s", script, g, err, want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "there"), "#!/bin/sh\n", 0o755)
	const good = "- {name: there, matchImages: [x.io], defaultCacheDuration: 1m, apiVersion: " + v1
	for text, want := range map[string]string{
		good + "}\n" + good + "}\n":                            "there twice",
		strings.Replace(good, "there", "absent", 1) + "}\n":    "its program",
		strings.Replace(good, "there", "../there", 1) + "}\n":  "without a path",
		strings.Replace(good, "[x.io]", "[]", 1) + "}\n":       "at least one",
		strings.Replace(good, "1m", "-1m", 1) + "}\n":          "not negative",
		strings.Replace(good, v1, "v9", 1) + "}\n":             `apiVersion "v9"`,
		strings.Replace(good, "x.io", "https://x.io", 1) + "}": "want a registry",
		good + ", matchImage: [x]}\n":                          "unknown key",
		good + ", tokenAttributes: {cacheType: Never}}\n":      "want Token or ServiceAccount",
		"- []\n": "cannot unmarshal",
	} {
		conf := filepath.Join(dir, "conf.yaml")
		write(t, conf, head+text, 0o600)
		if _, err := Open(conf, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := Open("", dir); err == nil {
		t.Error("a directory of programs without a configuration passes")
	}
	if p, err := Open("", ""); p != nil || err != nil {
		t.Errorf("nothing configured: %v, %v", p, err)
	}
}
