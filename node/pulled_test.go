package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
)

// A pod does not start on an image that another pod's credentials have brought; one with the same key in its own secret does, without a
// pull; and an image that nobody pulled is everybody's.
func TestPrivateImage(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.mu.Lock()
		r.rt.pull = func(q *cri.PullImageRequest) error {
			if q.Auth.GetPassword() != "secret" {
				return errors.New("403 Forbidden")
			}
			return nil
		}
		r.rt.mu.Unlock()
		for _, name := range []string{"key", "same"} {
			s := pullSecret("reg.test")
			s.ObjectMeta = metav1.ObjectMeta{Namespace: "d", Name: name}
			create(r, kinds.Secrets, s)
		}
		with := func(secret string, policy corev1.PullPolicy) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				if secret != "" {
					p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
				}
				p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "reg.test/app:1", policy
			}
		}
		r.pod("first", with("key", corev1.PullIfNotPresent), "a")
		r.reaches("first", corev1.PodRunning)
		for name, policy := range map[string]corev1.PullPolicy{"thief": corev1.PullIfNotPresent, "silent-thief": corev1.PullNever} {
			r.pod(name, with("", policy), "a")
			r.until(name+" is refused", func() bool {
				list := r.get(name).Status.ContainerStatuses
				return len(list) > 0 && list[0].State.Waiting != nil &&
					(list[0].State.Waiting.Reason == "ImagePullBackOff" || list[0].State.Waiting.Reason == "ErrImageNeverPull")
			})
		}
		r.rt.mu.Lock()
		before := len(r.rt.pulls)
		r.rt.mu.Unlock()
		r.pod("second", with("same", corev1.PullNever), "a")
		r.reaches("second", corev1.PodRunning)
		r.pod("preloaded", nil, "a")
		r.reaches("preloaded", corev1.PodRunning)
		r.rt.mu.Lock()
		count := len(r.rt.pulls)
		r.rt.mu.Unlock()
		config := `{"auths":{"reg.test":{"username":"node","password":"secret"}}}`
		if err := os.WriteFile(filepath.Join(r.cfg.Dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		r.reaches("thief", corev1.PodRunning) // the node may have it: so may all of its pods
		r.reaches("silent-thief", corev1.PodRunning)
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		if last := r.rt.pulls[len(r.rt.pulls)-1]; len(r.rt.pulls) <= count || last.Auth.GetUsername() != "node" {
			t.Errorf("not pulled for the node: %v", last)
		}
		r.rt.pulls = r.rt.pulls[:count]
		for _, q := range r.rt.pulls[before:] {
			if q.Auth != nil {
				t.Errorf("pulled once more: %v", q)
			}
		}
	})
}

// An image that is loaded by hand while a pull of it fails is everybody's. One that may have come by a pull whose answer is lost is not.
func TestLoadedWhilePulled(t *testing.T) {
	for code, want := range map[codes.Code]corev1.PodPhase{codes.Unknown: corev1.PodRunning, codes.NotFound: corev1.PodRunning,
		codes.Unavailable: corev1.PodPending, codes.DeadlineExceeded: corev1.PodPending} {
		simulate(t, func(r *rig) {
			r.rt.mu.Lock()
			r.rt.pull = func(q *cri.PullImageRequest) error {
				r.rt.images[q.Image.Image] = &cri.Image{Id: "sha256:x", RepoTags: []string{q.Image.Image}, Uid: &cri.Int64Value{}}
				return status.Error(code, "no such host")
			}
			r.rt.mu.Unlock()
			r.pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "reg.test/app:1" }, "a")
			r.until("it was pulled", func() bool {
				r.rt.mu.Lock()
				defer r.rt.mu.Unlock()
				return len(r.rt.pulls) > 0
			})
			r.rests(time.Minute)
			if got := r.get("p").Status.Phase; got != want {
				t.Errorf("the pull failed with %v: the pod is %s", code, got)
			}
		})
	}
}
