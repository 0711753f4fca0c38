package volume

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// A token is a service account token that the API server gave for a pod.
type token struct {
	text        string
	due, expiry time.Time
}

// The times of tokens: defaults of the API, the age at which long-lived ones are renewed too, and the pause after
// a renewal failed.
const (
	tokenLife  = time.Hour
	tokenAge   = 24 * time.Hour
	tokenRetry = 30 * time.Second
)

// token adds a service account token that is bound to the pod, a fresh one if the last has grown old.
func (f *filling) token(ctx context.Context, src *corev1.ServiceAccountTokenProjection, mode fs.FileMode) error {
	mode, user := f.private(mode)
	life := int64(tokenLife / time.Second)
	if src.ExpirationSeconds != nil {
		life = *src.ExpirationSeconds
	}
	t, err := f.m.token(ctx, f.pod, src.Audience, life)
	if err != nil {
		return err
	}
	f.soon(time.Until(t.due))
	f.files[src.Path] = file{data: []byte(t.text), mode: mode, user: user}
	return nil
}

// Token returns a token of the pod's service account that is bound to the pod, for an audience beside the API server.
func (m *Mounter) Token(ctx context.Context, pod *corev1.Pod, audience string) (string, error) {
	t, err := m.token(ctx, pod, audience, int64(tokenLife/time.Second))
	if err != nil {
		return "", err
	}
	return t.text, nil
}

func (m *Mounter) token(ctx context.Context, pod *corev1.Pod, audience string, life int64) (*token, error) {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	s, key := m.state(pod.UID), fmt.Sprintf("%s\x00%s\x00%d", account, audience, life)
	m.mu.Lock()
	old := s.tokens[key]
	m.mu.Unlock()
	if old != nil && time.Now().Before(old.due) {
		return old, nil
	}
	t, err := m.requestToken(ctx, pod, account, audience, life)
	if err != nil {
		if old == nil || !time.Now().Before(old.expiry) {
			return nil, err
		}
		m.log.Warn("renew a token; the old one is still good", "object", "pod/"+pod.Namespace+"/"+pod.Name, "err", err)
		t = &token{text: old.text, due: time.Now().Add(tokenRetry), expiry: old.expiry}
	}
	m.mu.Lock()
	s.tokens[key] = t
	m.mu.Unlock()
	return t, nil
}

func (m *Mounter) requestToken(ctx context.Context, pod *corev1.Pod, account, audience string, life int64) (*token, error) {
	tr := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &life,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}
	if audience != "" {
		tr.Spec.Audiences = []string{audience}
	}
	asked := time.Now()
	out, err := m.cfg.Client.Call(ctx, kinds.ServiceAccounts, pod.Namespace, account, "token", tr)
	if err != nil {
		return nil, fmt.Errorf("failed to fetch token: %w", err)
	}
	got, ok := out.(*authenticationv1.TokenRequest)
	if !ok || got.Status.Token == "" {
		return nil, fmt.Errorf("failed to fetch token: the answer is a %T without a token", out)
	}
	t := &token{text: got.Status.Token, expiry: got.Status.ExpirationTimestamp.Time}
	t.due = asked.Add(min(t.expiry.Sub(asked)*8/10, tokenAge))
	return t, nil
}

// soleUser is the user that all containers of the pod run as by its spec; nil: there are several, or the spec does
// not say.
func soleUser(pod *corev1.Pod) (user *int64) {
	var of *int64
	if sc := pod.Spec.SecurityContext; sc != nil {
		of = sc.RunAsUser
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			u := of
			if sc := list[i].SecurityContext; sc != nil && sc.RunAsUser != nil {
				u = sc.RunAsUser
			}
			if u == nil || user != nil && *u != *user {
				return nil
			}
			user = u
		}
	}
	return user
}
