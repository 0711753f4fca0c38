package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A pod that wants no groups but its own gets none of the image's, or does not run.
func TestStrictGroups(t *testing.T) {
	simulate(t, func(r *rig) {
		strict := func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{7},
				SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}
		}
		r.pod("refused", strict, "a")
		p := r.reaches("refused", corev1.PodFailed)
		if p.Status.Reason != "SupplementalGroupsPolicyNotSupported" {
			t.Errorf("a runtime that can't: %s: %s", p.Status.Reason, p.Status.Message)
		}
		r.stop()
		r.rt.features = &cri.RuntimeFeatures{SupplementalGroupsPolicy: true}
		r.rt.user = &cri.ContainerUser{Linux: &cri.LinuxContainerUser{Uid: 1, Gid: 2, SupplementalGroups: []int64{2, 7}}}
		r.start()
		r.pod("strict", strict, "s")
		r.reaches("strict", corev1.PodRunning)
		r.pod("merged", nil, "m")
		r.reaches("merged", corev1.PodRunning)
		for name, want := range map[string]cri.SupplementalGroupsPolicy{"s": cri.SupplementalGroupsPolicy_Strict,
			"m": cri.SupplementalGroupsPolicy_Merge} {
			if got := r.rt.newest(name).Linux.SecurityContext.SupplementalGroupsPolicy; got != want {
				t.Errorf("container %s: %v, want %v", name, got, want)
			}
		}
		u := r.get("strict").Status.ContainerStatuses[0].User
		if u == nil || u.Linux.UID != 1 || u.Linux.GID != 2 || !slices.Equal(u.Linux.SupplementalGroups, []int64{2, 7}) {
			t.Errorf("the status tells of the user %v", u)
		}
		for _, req := range r.rt.boxReqs {
			got := req.Config.Linux.SecurityContext.SupplementalGroupsPolicy
			if want := req.Config.Metadata.Name == "strict"; want != (got == cri.SupplementalGroupsPolicy_Strict) {
				t.Errorf("sandbox %s: %v", req.Config.Metadata.Name, got)
			}
		}
	})
}
