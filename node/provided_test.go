package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/provider"
)

// TestProvidedImage has a plugin open a registry for one service account: its pod gets the image, by a token that is bound to the pod,
// and a pod of another account does not, although the image is there.
func TestProvidedImage(t *testing.T) {
	dir := t.TempDir()
	const v1 = "credentialprovider.kubelet.k8s.io/v1"
	for name, text := range map[string]string{
		"known": "#!/bin/sh\ncat > " + dir + "/asked\n" + `echo '{"apiVersion":"` + v1 + `","kind":"CredentialProviderResponse",` +
			`"cacheKeyType":"Image","auth":{"reg.test":{"username":"robot","password":"secret"}}}'`,
		"conf.yaml": "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n" +
			"- {name: known, matchImages: [reg.test], " +
			"defaultCacheDuration: 1m, apiVersion: " + v1 + ", " +
			"tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: ServiceAccount, " +
			"requireServiceAccount: true, requiredServiceAccountAnnotationKeys: [role]}}",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		})
	}
	simulate(t, func(r *rig) {
		r.stop()
		var err error
		if r.cfg.Providers, err = provider.Open(filepath.Join(dir, "conf.yaml"), dir); err != nil {
			t.Fatal(err)
		}
		r.rt.pull = func(q *cri.PullImageRequest) error {
			if q.Auth.GetUsername() != "robot" || q.Auth.GetPassword() != "secret" {
				return errors.New("403 Forbidden")
			}
			return nil
		}
		r.start()
		r.agent.starter.images.token = func(_ context.Context, p *corev1.Pod, audience string) (string, error) {
			return "for " + p.Name + " at " + audience, nil
		}
		for name, notes := range map[string]map[string]string{"may": {"role": "puller"}, "other": {"role": "puller"}, "not": nil} {
			create(r, kinds.ServiceAccounts, &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, Annotations: notes}})
		}
		as := func(account string) func(*corev1.Pod) {
			return func(p *corev1.Pod) { p.Spec.ServiceAccountName, p.Spec.Containers[0].Image = account, "reg.test/app:1" }
		}
		r.pod("a", as("may"), "c")
		r.reaches("a", corev1.PodRunning)
		asked, err := os.ReadFile(dir + "/asked")
		want := `{"kind":"CredentialProviderRequest","apiVersion":"` + v1 + `","image":"reg.test/app",` +
			`"serviceAccountToken":"for a at reg",` +
			`"serviceAccountAnnotations":{"role":"puller"}}`
		if err != nil || string(asked) != want {
			t.Errorf("the plugin reads %s, %v; want %s", asked, err, want)
		}
		r.rt.mu.Lock()
		pulls := len(r.rt.pulls)
		r.rt.mu.Unlock()
		r.pod("same", as("may"), "c")
		r.reaches("same", corev1.PodRunning)
		r.rt.mu.Lock()
		if n := len(r.rt.pulls); n != pulls {
			t.Errorf("a second pod of the account had it pulled %d times more", n-pulls)
		}
		r.rt.mu.Unlock()
		r.pod("thief", as("not"), "c")
		r.until("the thief is refused", func() bool {
			list := r.get("thief").Status.ContainerStatuses
			return len(list) > 0 && list[0].State.Waiting != nil && list[0].State.Waiting.Reason == "ImagePullBackOff"
		})
		r.pod("other", as("other"), "c")
		r.reaches("other", corev1.PodRunning)
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		if last := r.rt.pulls[len(r.rt.pulls)-1]; len(r.rt.pulls) <= pulls || last.Auth.GetUsername() != "robot" {
			t.Errorf("for another account it was not pulled by what the plugin gave for that: %v", last)
		}
	})
}
