package pullrecord

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func secrets(list ...Secret) func() []Secret { return func() []Secret { return list } }

var (
	mine   = Secret{UID: "1", Namespace: "a", Name: "s", Hash: Hash("u", "p")}
	copied = Secret{UID: "2", Namespace: "b", Name: "s", Hash: Hash("u", "p")}
	turned = Secret{UID: "1", Namespace: "a", Name: "s", Hash: Hash("u", "new")}
	others = Secret{UID: "3", Namespace: "c", Name: "s", Hash: Hash("u", "other")}
)

// What each policy lets a pod have of an image that is there: one that no pull brought, one whose pull was not seen to end, one that
// everybody may pull, one that a secret opened.
func TestMay(t *testing.T) {
	const name, id = "reg.test/team/app:1", "sha256:1"
	for _, c := range []struct{ policy, want string }{
		{NeverVerifyPreloadedImages, "preloaded public mine copied turned"},
		{NeverVerify, "preloaded begun public none mine copied turned others"},
		{AlwaysVerify, "public mine copied turned"},
		{NeverVerifyAllowlistedImages, "preloaded public mine copied turned"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			var got []string
			try := func(state string, prepare func(*Store) error, have ...Secret) {
				t.Helper()
				p := Policy{Name: c.policy}
				if c.policy == NeverVerifyAllowlistedImages {
					p.Allowed = []string{"reg.test/team/*"}
				}
				s := Open(t.TempDir(), p)
				if err := prepare(s); err != nil {
					t.Fatal(err)
				}
				ok, err := s.May(name, id, secrets(have...))
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					got = append(got, state)
				}
			}
			pulled := func(by *Secret) func(*Store) error {
				return func(s *Store) error {
					if err := s.Begin(name); err != nil {
						return err
					}
					return s.Done("reg.test/team/app:other", id, by)
				}
			}
			try("preloaded", func(*Store) error { return nil })
			try("begun", func(s *Store) error { return s.Begin(name) }, mine)
			try("public", pulled(nil))
			try("none", pulled(&mine))
			try("mine", pulled(&mine), mine)
			try("copied", pulled(&mine), others, copied)
			try("turned", pulled(&mine), turned)
			try("others", pulled(&mine), others)
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("may have %s, want %s", text, c.want)
			}
		})
	}
}

// An image is known by all names that it was pulled by, and by no other; what opened it once opens it from then on, also after a restart.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	may := func(name string, have ...Secret) bool {
		t.Helper()
		ok, err := Open(dir, Policy{}).May(name, "sha256:1", secrets(have...))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	s := Open(dir, Policy{})
	for _, err := range []error{s.Begin("reg.test/app:1"), s.Done("reg.test/app:1", "sha256:1", &mine)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if may("mirror.test/app:1", mine) {
		t.Error("the same image by another registry's name needs that one's word")
	}
	if !may("reg.test/app:1", copied) || may("reg.test/app:1", others) || !may("reg.test/app@sha256:"+strings.Repeat("0", 64), copied) {
		t.Error("the key of a secret is not what counts")
	}
	if again := (Secret{UID: copied.UID, Namespace: copied.Namespace, Name: copied.Name, Hash: "new"}); !may("reg.test/app:1", again) {
		t.Error("a secret that once had the right key and got another is not known any more")
	}
	for i := range 3 * mostSecrets {
		if err := s.Done("reg.test/app:1", "sha256:1", &Secret{UID: strings.Repeat("x", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := s.read("sha256:1"); err != nil || len(r.By["reg.test/app"].Secrets) != mostSecrets {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Done("reg.test/app:1", "sha256:1", nil); err != nil || !may("reg.test/app:1") {
		t.Error("an image that has become public is still asked for", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "pulling", "*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// A file that can't be read lets nobody in, and the next pull mends it. A pull that failed leaves nothing.
func TestBroken(t *testing.T) {
	s := Open(t.TempDir(), Policy{})
	if err := s.Done("app", "id", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file("pulled", "id"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.May("app", "id", secrets(mine)); ok || err == nil {
		t.Error(ok, err)
	}
	if err := s.Done("app", "id", nil); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.May("app", "id", nil); !ok || err != nil {
		t.Error(ok, err)
	}
	if err := s.Begin("none"); err != nil {
		t.Fatal(err)
	}
	s.Failed("none")
	if ok, err := s.May("none", "of old", nil); !ok || err != nil {
		t.Error("an image that was there before counts as pulled because a pull failed", err)
	}
}

func TestPrune(t *testing.T) {
	s := Open(t.TempDir(), Policy{})
	if err := s.Prune(nil, time.Now()); err != nil {
		t.Error("nothing is there", err)
	}
	for _, id := range []string{"kept", "gone", "new"} {
		if err := s.Done("app", id, &mine); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(s.file("pulled", "new"), later, later); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune([]string{"kept"}, later); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, id := range []string{"kept", "gone", "new"} {
		if r, err := s.read(id); err != nil {
			t.Error(err)
		} else if r != nil {
			left = append(left, id)
		}
	}
	if !slices.Equal(left, []string{"kept", "new"}) {
		t.Error(left)
	}
}

func TestNewPolicy(t *testing.T) {
	for _, c := range []struct {
		name, allowed string
		bad           bool
	}{
		{"", "", false}, {NeverVerify, "", false}, {"never", "", true}, {AlwaysVerify, "docker.io/library/nginx", true},
		{NeverVerifyAllowlistedImages, "", true}, {NeverVerifyAllowlistedImages, "docker.io/library/nginx docker.io/team/*", false},
		{NeverVerifyAllowlistedImages, "nginx", true}, {NeverVerifyAllowlistedImages, "docker.io/library/nginx:1", true},
		{NeverVerifyAllowlistedImages, "docker.io/*/nginx", true}, {NeverVerifyAllowlistedImages, "/*", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if p, err := NewPolicy(c.name, strings.Fields(c.allowed)); (err != nil) != c.bad || err == nil && p.Name == "" {
				t.Errorf("%s, %s: %+v, %v", c.name, c.allowed, p, err)
			}
		})
	}
}
