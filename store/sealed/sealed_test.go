package sealed

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	upstreamaes "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	upstreambox "k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"

	"github.com/kloop-dev/kloop/store"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/store/storetest"
)

const secretKey = "/registry/secrets/ns/s"

// resourceOf reads keys of the form /registry/[group.with.dots/]resource/….
func resourceOf(key string) schema.GroupResource {
	parts := strings.Split(strings.TrimPrefix(key, "/registry/"), "/")
	if strings.Contains(parts[0], ".") {
		return schema.GroupResource{Group: parts[0], Resource: parts[1]}
	}
	return schema.GroupResource{Resource: parts[0]}
}

func keyOf(b byte, n int) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, n))
}

// file is a configuration whose entries are "resources: provider key…".
func file(entries ...string) string {
	var b strings.Builder
	b.WriteString("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n")
	for _, e := range entries {
		resources, providers, _ := strings.Cut(e, ":")
		fmt.Fprintf(&b, "- resources: [%s]\n  providers:\n", quoted(resources))
		for _, p := range strings.Fields(providers) {
			kind, key, _ := strings.Cut(p, "/")
			if kind == "identity" {
				b.WriteString("  - identity: {}\n")
				continue
			}
			fmt.Fprintf(&b, "  - %s: {keys: [{name: %s, secret: %s}]}\n", kind, key, keyOf(key[len(key)-1], 32))
		}
	}
	return b.String()
}

func quoted(list string) string {
	var out []string
	for _, s := range strings.Fields(list) {
		out = append(out, `"`+s+`"`)
	}
	return strings.Join(out, ", ")
}

func rules(t *testing.T, entries ...string) *Rules {
	t.Helper()
	r, err := Parse([]byte(file(entries...)), dialPlugin, resourceOf)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestContract(t *testing.T) {
	r := rules(t, "*.*: aesgcm/k1")
	storetest.Run(t, func(t *testing.T) store.Store { return New(memory.New(), r) })
}

// TestUpstreamReads checks every form against upstream's own code, both ways.
func TestUpstreamReads(t *testing.T) {
	secret := bytes.Repeat([]byte{'1'}, 32)
	gcm, err := upstreamaes.NewGCMTransformer(mustBlock(t, secret))
	if err != nil {
		t.Fatal(err)
	}
	for kind, theirs := range map[string]value.Transformer{"aescbc": upstreamaes.NewCBCTransformer(mustBlock(t, secret)),
		"aesgcm": gcm, "secretbox": upstreambox.NewSecretboxTransformer([32]byte(secret))} {
		t.Run(kind, func(t *testing.T) {
			r := rules(t, "secrets: "+kind+"/k1")
			prefix := []byte("k8s:enc:" + kind + ":v1:k1:")
			for _, plain := range []string{"", "x", "sixteen bytes 16", strings.Repeat("long ", 1000)} {
				ours, err := r.seal(secretKey, []byte(plain))
				if err != nil || !bytes.HasPrefix(ours, prefix) {
					t.Fatalf("%s: %q %v", kind, ours, err)
				}
				got, stale, err := theirs.TransformFromStorage(context.Background(), ours[len(prefix):], value.DefaultContext(secretKey))
				if err != nil || stale || string(got) != plain {
					t.Errorf("%s: upstream reads %q, %v", kind, got, err)
				}
				sealed, err := theirs.TransformToStorage(context.Background(), []byte(plain), value.DefaultContext(secretKey))
				if err != nil {
					t.Fatal(err)
				}
				if back, err := r.open(secretKey, append(bytes.Clone(prefix), sealed...)); err != nil || string(back) != plain {
					t.Errorf("%s: we read %q, %v", kind, back, err)
				}
			}
		})
	}
}

func TestDamage(t *testing.T) {
	for _, kind := range []string{"aesgcm", "secretbox"} {
		r := rules(t, "secrets: "+kind+"/k1")
		sealed, _ := r.seal(secretKey, []byte("password"))
		for _, i := range []int{len(sealed) - 1, len("k8s:enc:" + kind + ":v1:k1:")} {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1
			if got, err := r.open(secretKey, bad); err == nil {
				t.Errorf("%s: damaged at %d, opened as %q", kind, i, got)
			}
		}
	}
	r := rules(t, "secrets: aesgcm/k1")
	sealed, _ := r.seal(secretKey, []byte("password"))
	if _, err := r.open("/registry/secrets/ns/other", sealed); err == nil {
		t.Error("a value that was moved to another key was opened")
	}
	for _, v := range []string{"k8s:enc:aescbc:v1:k1:", "k8s:enc:aesgcm:v1:k1:", "k8s:enc:secretbox:v1:k1:short", "k8s:enc:",
		"k8s:enc:kms:v2:x:y"} {
		if _, err := rules(t, "secrets: aescbc/k1 aesgcm/k1 secretbox/k1").open(secretKey, []byte(v)); err == nil {
			t.Errorf("%q was opened", v)
		}
	}
}

func TestWhichKeysAreSealed(t *testing.T) {
	r := rules(t, "secrets deployments.apps: aescbc/k1", "*.: secretbox/k2", "*.batch: aesgcm/k3 identity", "*.*: identity aesgcm/k3")
	for key, want := range map[string]string{
		secretKey:                                 "k8s:enc:aescbc:v1:k1:",
		"/registry/configmaps/ns/c":               "k8s:enc:secretbox:v1:k2:",
		"/registry/batch.x/jobs/ns/j":             "",
		"/registry/example.com/widgets/ns/w":      "",
		"/registry/apps.x/deployments/ns/d":       "",
		"/registry/deployments/ns/core-not-apps":  "k8s:enc:secretbox:v1:k2:",
		"/registry/secretsandmore/ns/another-one": "k8s:enc:secretbox:v1:k2:",
	} {
		t.Run(key, func(t *testing.T) {
			got, err := r.seal(key, []byte("v"))
			if err != nil || !bytes.HasPrefix(got, []byte(want)) || want == "" && string(got) != "v" {
				t.Errorf("%s: %q %v", key, got, err)
			}
		})
	}
}

// TestRotation goes through a change of keys as upstream's manual has it.
func TestRotation(t *testing.T) {
	ctx := context.Background()
	below := memory.New()
	s := New(below, rules(t, "secrets: identity"))
	write := func(key, v string, expect int64) int64 {
		t.Helper()
		rev, err := s.Write(ctx, store.Write{Key: key, Value: []byte(v), Expect: expect})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	rev := write(secretKey, "password", 0)
	for _, step := range []struct {
		entry string
		stale bool
		has   string
	}{
		{"secrets: identity aesgcm/k1", false, "password"},
		{"secrets: aesgcm/k1 identity", true, "k8s:enc:aesgcm:v1:k1:"},
		{"secrets: aesgcm/k1 secretbox/k2", false, "k8s:enc:aesgcm:v1:k1:"},
		{"secrets: secretbox/k2 aesgcm/k1", true, "k8s:enc:secretbox:v1:k2:"},
		{"secrets: secretbox/k2", false, "k8s:enc:secretbox:v1:k2:"},
		{"secrets: identity secretbox/k2", true, "password"},
	} {
		t.Run(step.entry, func(t *testing.T) {
			s.Replace(rules(t, step.entry))
			if stale, err := s.Stale(ctx, secretKey); err != nil || stale != step.stale {
				t.Fatalf("%s: stale %v, %v", step.entry, stale, err)
			}
			if step.stale {
				rev = write(secretKey, "password", rev)
			}
			raw, _, _ := below.Get(ctx, secretKey)
			if !bytes.HasPrefix(raw.Value, []byte(step.has)) || step.has != "password" && bytes.Contains(raw.Value, []byte("password")) {
				t.Errorf("%s: stored %q", step.entry, raw.Value)
			}
			if kv, _, err := s.Get(ctx, secretKey); err != nil || kv.Err != nil || string(kv.Value) != "password" {
				t.Errorf("%s: read %+v, %v", step.entry, kv, err)
			}
		})
	}
	if stale, err := s.Stale(ctx, "/registry/secrets/ns/missing"); stale || err != nil {
		t.Error("a missing key is stale", err)
	}
}

func TestWrongKey(t *testing.T) {
	ctx := context.Background()
	below := memory.New()
	s := New(below, rules(t, "secrets: aesgcm/k1"))
	if _, err := s.Write(ctx, store.Write{Key: secretKey, Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{"secrets: aesgcm/k2", "configmaps: aesgcm/k1", "secrets: identity"} {
		s.Replace(rules(t, entry))
		page, err := s.List(ctx, "/registry/", "", 0, 0)
		if err != nil || len(page.KVs) != 1 || page.KVs[0].Err == nil || page.KVs[0].Value != nil {
			t.Errorf("%s: %+v %v", entry, page, err)
		}
	}
	same := strings.ReplaceAll(file("secrets: aesgcm/k1"), keyOf('1', 32), keyOf('9', 32)) // another secret under the name
	r, err := Parse([]byte(same), dialPlugin, resourceOf)
	if err != nil {
		t.Fatal(err)
	}
	s.Replace(r)
	if kv, _, _ := s.Get(ctx, secretKey); kv.Err == nil || !strings.Contains(kv.Err.Error(), "aesgcm:v1:k1") {
		t.Errorf("%+v", kv)
	}
}

func TestReplaceEndsWatches(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	s := New(memory.New(), rules(t, "secrets: aesgcm/k1"))
	if _, err := s.Write(ctx, store.Write{Key: secretKey, Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, "/registry/", 0, func(b store.Batch) error {
			for _, e := range b.Events {
				seen <- string(e.KV.Value)
			}
			return nil
		})
	}()
	if got := <-seen; got != "v" {
		t.Fatalf("watched %q", got)
	}
	s.Replace(rules(t, "secrets: aesgcm/k2 aesgcm/k1"))
	if err := <-ended; !errors.Is(err, store.ErrCompacted) {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestParseRefuses(t *testing.T) {
	head := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "kind EncryptionConfiguration"},
		"not yaml":      {"\t{", "read the EncryptionConfiguration"},
		"kind":          {"kind: Secret\napiVersion: v1\n", "Secret"},
		"nothing":       {head, "at least one entry"},
		"unknown field": {head + "resource: []\n", "unknown field"},
		"no resources":  {head + "resources: [{resources: [], providers: [{identity: {}}]}]", "resources[0].resources"},
		"no providers":  {head + "resources: [{resources: [secrets], providers: []}]", "resources[0].providers"},
		"two at once": {head + "resources: [{resources: [secrets], providers: [{identity: {}, aesgcm: {keys: [{name: a, secret: " +
			keyOf('a', 32) + "}]}}]}]", "2 are given"},
		"none":    {head + "resources: [{resources: [secrets], providers: [{}]}]", "0 are given"},
		"no keys": {head + "resources: [{resources: [secrets], providers: [{aescbc: {keys: []}}]}]", "at least one is needed"},
		"size": {head + "resources: [{resources: [secrets], providers: [{secretbox: {keys: [{name: a, secret: " + keyOf('a',
			16) + "}]}}]}]", "has 16 bytes"},
		"base64": {head + "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: a, secret: '!'}]}}]}]", "base64"},
		"colon": {head + "resources: [{resources: [secrets], providers: [{aesgcm: {keys: [{name: 'a:b', secret: " + keyOf('a',
			32) + "}]}}]}]", "without colons"},
		"star":         {file("*: identity"), "*.*"},
		"twice":        {file("secrets: identity", "secrets: identity"), "twice"},
		"masked":       {file("*.*: identity", "secrets: identity"), "wildcard"},
		"masked group": {file("*.: identity", "secrets: identity"), "wildcard"},
		"case":         {file("Secrets: identity"), "lower case"},
		"subresource":  {file("pods/status: identity"), "subresource"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text), dialPlugin, resourceOf); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func mustBlock(t *testing.T, secret []byte) cipher.Block {
	t.Helper()
	b, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
