package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/image"
	"github.com/kloop-dev/kloop/resource"
)

// imaged gives a pod an image as a volume that its containers mount.
func imaged(reference string, policy corev1.PullPolicy, sub string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: policy}}}}
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/data", SubPath: sub}}
		}
	}
}

// An image is pulled and mounted, as the runtime knows it, and only to be read.
func TestImageVolume(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", imaged("data:1", corev1.PullAlways, "dir"), "a", "b")
		r.reaches("p", corev1.PodRunning)
		for _, c := range []string{"a", "b"} {
			var m *cri.Mount
			for _, is := range r.rt.newest(c).Mounts {
				if is.ContainerPath == "/data" {
					m = is
				}
			}
			if m == nil || m.Image.GetImage() != "sha256:data:1" || m.Image.GetUserSpecifiedImage() != "data:1" ||
				m.ImageSubPath != "dir" || !m.Readonly || m.HostPath != "" {
				t.Errorf("%s: %+v", c, m)
			}
		}
		if n := len(r.rt.pulls); n != 2 {
			t.Errorf("%d pulls, want one for each container", n)
		}
		r.rt.exit("a", 1)
		r.until("it runs again", func() bool { return r.get("p").Status.ContainerStatuses[0].RestartCount == 1 })
		if n := len(r.rt.pulls); n != 3 {
			t.Errorf("%d pulls, want one more for the next start", n)
		}
	})
}

// What keeps an image from being mounted is told as for images of containers.
func TestImageVolumeErrors(t *testing.T) {
	for _, c := range []struct {
		name, version string
		policy        corev1.PullPolicy
		reason, text  string
		again         bool // the pull is tried again
	}{
		{"never", "2.1.4", corev1.PullNever, "ErrImageNeverPull", "is not present with pull policy of Never", false},
		{"absent", "2.1.4", corev1.PullIfNotPresent, "ImagePullBackOff", "ErrImagePull: no such manifest", true},
		{"old containerd", "1.6.20~ds1", corev1.PullIfNotPresent, "CreateContainerError", "it takes 2.1 or newer", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock() // the agent runs
				r.rt.name, r.rt.version = "containerd", c.version
				r.rt.pull = func(*cri.PullImageRequest) error { return errors.New("no such manifest") }
				r.rt.mu.Unlock()
				r.pod("p", imaged("data:1", c.policy, ""), "a")
				r.until("it tells", func() bool {
					list := r.get("p").Status.ContainerStatuses
					if len(list) == 0 || list[0].State.Waiting == nil {
						return false
					}
					w := list[0].State.Waiting
					return w.Reason == c.reason && strings.Contains(w.Message, c.text)
				})
				r.rests(time.Minute)
				for _, e := range resource.List(r.Read(), kinds.Events, "d") {
					ofVolume := strings.Contains(e.Message, "data:1")
					if ofVolume && e.InvolvedObject.FieldPath != "" {
						t.Errorf("the event of a volume is one of %s: %s", e.InvolvedObject.FieldPath, e.Message)
					}
					if strings.Contains(e.Message, `"img"`) {
						t.Errorf("the container's own image has its turn after its volumes: %s", e.Message)
					}
				}
				r.rt.mu.Lock()
				defer r.rt.mu.Unlock()
				if n := len(r.rt.pulls); n > 4 || c.again && n < 2 {
					t.Errorf("%d pulls in a minute", n)
				}
				if r.rt.lists > 300 { // some for each look at the pod, and those of the relist
					t.Errorf("the agent looks all the time at a pod that waits: it asked for sandboxes %d times in a minute", r.rt.lists)
				}
			})
		})
	}
}

// The images that pods mount are in use.
func TestImageVolumesAreKept(t *testing.T) {
	p := testPod(corev1.RestartPolicyAlways, "", "a")
	imaged("data:1", corev1.PullIfNotPresent, "")(p)
	images := []*cri.Image{{Id: "x", RepoTags: []string{"docker.io/library/data:1"}},
		{Id: "y", RepoTags: []string{"docker.io/library/other:1"}}}
	u := imageUses{}
	if list := u.note(images, nil, []*corev1.Pod{p}, noon); !list[0].Kept || list[1].Kept {
		t.Errorf("%+v", list)
	}
	p.Status.Phase = corev1.PodSucceeded
	if list := u.note(images, nil, []*corev1.Pod{p}, noon); list[0].Kept {
		t.Error("kept for a pod that has ended")
	}
}

// The image of sandboxes stays on a full disk: no container names it, and without it no pod starts.
func TestPauseImageIsKept(t *testing.T) {
	u := imageUses{}
	if list := u.note([]*cri.Image{{Id: "x", RepoTags: []string{image.PauseRef}}}, nil, nil, noon); !list[0].Kept {
		t.Error("it may be removed")
	}
}

func TestOlderThan(t *testing.T) {
	for version, want := range map[string]bool{"1.6.20~ds1": true, "v1.7.28": true, "2.0.5": true, "2.1.0-beta.0": false, "v2.4.2": false,
		"3.0": false, "unknown": false} {
		t.Run(version, func(t *testing.T) {
			if olderThan(version, 2, 1) != want {
				t.Errorf("%s is older than 2.1: %v", version, !want)
			}
		})
	}
}
