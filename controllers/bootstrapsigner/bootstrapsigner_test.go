package bootstrapsigner

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func tokenSecret(id string, edit func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: tokenType, Data: map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-signing": []byte("true")}}
	if edit != nil {
		edit(s)
	}
	return s
}

func TestSigners(t *testing.T) {
	got, next := signers([]*corev1.Secret{
		tokenSecret("good00", nil),
		tokenSecret("soon00", func(s *corev1.Secret) { s.Data["expiration"] = []byte("2026-01-01T13:00:00Z") }),
		tokenSecret("gone00", func(s *corev1.Secret) { s.Data["expiration"] = []byte("2026-01-01T11:00:00Z") }),
		tokenSecret("never0", func(s *corev1.Secret) { s.Data["expiration"] = []byte("in a while") }),
		tokenSecret("login0", func(s *corev1.Secret) { s.Data["usage-bootstrap-signing"] = []byte("false") }),
		tokenSecret("named0", func(s *corev1.Secret) { s.Name = "else" }),
		tokenSecret("plain0", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }),
	}, noon)
	if ids := slices.Sorted(maps.Keys(got)); !slices.Equal(ids, []string{"good00", "soon00"}) || next != time.Hour {
		t.Errorf("%v sign, the first for %v", ids, next)
	}
}

func TestPlan(t *testing.T) {
	data := map[string]string{"kubeconfig": "clusters: []", "other": "x", prefix + "old000": "stale"}
	got, err := plan(data, map[string]string{"abcdef": "0123456789abcdef"})
	if err != nil || len(got) != 3 || got["other"] != "x" {
		t.Fatalf("%v, %v", got, err)
	}
	// Anybody's library must find the signature good, once the content is put back.
	parts := strings.Split(got[prefix+"abcdef"], ".")
	whole := parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte("clusters: []"))
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || parts[1] != "" || jwt.SigningMethodHS256.Verify(whole, sig, []byte("0123456789abcdef")) != nil {
		t.Errorf("the signature %s is not good: %v", got[prefix+"abcdef"], err)
	}
	if again, err := plan(got, map[string]string{"abcdef": "0123456789abcdef"}); err != nil || !maps.Equal(again, got) {
		t.Errorf("not the same again: %v, %v", again, err)
	}
	if got, _ := plan(map[string]string{prefix + "abcdef": "x"}, map[string]string{"abcdef": "y"}); len(got) != 0 {
		t.Errorf("signs nothing: %v", got)
	}
}
