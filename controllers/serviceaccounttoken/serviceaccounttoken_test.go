package serviceaccounttoken

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type signer struct{ err error }

func (s signer) Secret(sa *corev1.ServiceAccount, secret string) (string, error) {
	return "token of " + sa.Name + " in " + secret, s.err
}

func TestPlan(t *testing.T) {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "1"}}
	full := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s",
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot", corev1.ServiceAccountUIDKey: "1"}},
			Data: map[string][]byte{"token": []byte("an old one"), "ca.crt": []byte("ca"), "namespace": []byte("ns")}}
	}
	for _, tt := range []struct {
		name   string
		edit   func(*corev1.Secret)
		same   bool
		token  string
		failed error
	}{
		{"whole", func(*corev1.Secret) {}, true, "", nil},
		{"empty", func(s *corev1.Secret) { s.Data = nil }, false, "token of robot in s", nil},
		{"another CA", func(s *corev1.Secret) { s.Data["ca.crt"] = []byte("old") }, false, "an old one", nil},
		{"without the uid", func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }, false, "an old one", nil},
		{"no key to sign with", func(s *corev1.Secret) { s.Data = nil }, false, "", errors.New("no key")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := full()
			tt.edit(s)
			next, err := tokens{signer{tt.failed}, []byte("ca")}.plan(s, sa)
			switch {
			case !errors.Is(err, tt.failed):
				t.Errorf("%s: %v", tt.name, err)
			case err != nil:
			case (next == nil) != tt.same:
				t.Errorf("%s: changed to %v", tt.name, next)
			case next != nil && (string(next.Data["token"]) != tt.token || string(next.Data["ca.crt"]) != "ca" ||
				string(next.Data["namespace"]) != "ns" || next.Annotations[corev1.ServiceAccountUIDKey] != "1"):
				t.Errorf("%s: %v %s", tt.name, next.Annotations, next.Data)
			}
		})
	}
}
