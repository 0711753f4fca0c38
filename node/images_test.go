package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Status and events name an image that can't even be asked for in the words of upstream. The container starts soon after it can be
// had, however long that takes: an image that somebody loads wakes nobody.
func TestUnusableImages(t *testing.T) {
	for _, c := range []struct {
		name, image  string
		policy       corev1.PullPolicy
		reason, text string
		event        string
		mend         func(f *fakeRuntime)
	}{
		{"never", "late:1", corev1.PullNever, "ErrImageNeverPull", `Container image "late:1" is not present with pull policy of Never`,
			"ErrImageNeverPull", func(f *fakeRuntime) { f.images["late:1"] = &cri.Image{Id: "sha256:late", Uid: &cri.Int64Value{}} }},
		{"runtime", "img", corev1.PullIfNotPresent, "ImageInspectError", `Failed to inspect image "img"`, "InspectFailed",
			func(f *fakeRuntime) { f.blind = nil }},
		{"upper case", "Reg.test/App:1", corev1.PullIfNotPresent, "InvalidImageName",
			`Failed to apply default image tag "Reg.test/App:1": couldn't parse image name "Reg.test/App:1": invalid reference format`,
			"InspectFailed", nil},
		{"an id", strings.Repeat("a1", 32), corev1.PullNever, "InvalidImageName", "Failed to apply default image tag", "InspectFailed", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				if c.name == "runtime" {
					r.rt.mu.Lock()
					r.rt.blind = errors.New("it is starting")
					r.rt.mu.Unlock()
				}
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = c.image, c.policy
				}, "a")
				waits := func() bool {
					list := r.get("p").Status.ContainerStatuses
					return len(list) > 0 && list[0].State.Waiting != nil && list[0].State.Waiting.Reason == c.reason &&
						strings.HasPrefix(list[0].State.Waiting.Message, c.text)
				}
				r.until("it tells", waits)
				r.rests(20 * time.Minute)
				if !waits() {
					t.Errorf("later it tells %+v", r.get("p").Status.ContainerStatuses)
				}
				if events := r.events("p"); !strings.Contains(events, c.event) || !strings.Contains(events, "Failed") {
					t.Errorf("events: %s", events)
				}
				if c.mend == nil {
					return
				}
				r.rt.mu.Lock()
				c.mend(r.rt)
				r.rt.mu.Unlock()
				r.rests(15 * time.Second)
				if p := r.get("p"); p.Status.Phase != corev1.PodRunning {
					t.Errorf("15 s after: %+v", p.Status)
				}
			})
		})
	}
}

// TestPullOutlivesItsPod: a pull that ends after its pod has gone leaves nothing behind, whether it ended well or not.
func TestPullOutlivesItsPod(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
	}{{"well", nil}, {"badly", errors.New("no such manifest")}} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				began, end := make(chan struct{}), make(chan struct{})
				r.rt.pull = func(*cri.PullImageRequest) error {
					close(began)
					r.rt.mu.Unlock() // the runtime does other things meanwhile
					<-end
					r.rt.mu.Lock()
					return c.err
				}
				r.pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, "a")
				<-began
				r.remove("p")
				r.rests(time.Minute)
				close(end)
				r.rests(time.Minute)
				p := r.agent.starter.images
				if n := len(p.running) + len(p.fresh) + len(p.refused) + len(p.backoff.of); n != 0 {
					t.Errorf("%d things are remembered: %v %v %v %v", n, p.running, p.fresh, p.refused, p.backoff.of)
				}
			})
		})
	}
}
