package node

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// What the spec leaves out is the image's: the command, its arguments, both or neither. The agent's hosts file gives way to one that is
// mounted, and the file for last words can be written by any user wherever it is.
func TestContainerConfig(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/hosts"}}}}
			c := p.Spec.Containers
			for i := range c {
				c[i].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
			}
			c[1].Args = []string{"x", "$(A)$(B)$$(A)"}
			c[2].Command = []string{"/bin/$(A)"}
			c[3].Command, c[3].Args = c[2].Command, c[1].Args
			c[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/own"},
				{Name: "v", MountPath: "/in", MountPropagation: new(corev1.MountPropagationHostToContainer)},
				{Name: "v", MountPath: "/none", MountPropagation: new(corev1.MountPropagationNone)}}
			c[2].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
			c[2].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/both", MountPropagation: new(corev1.MountPropagationBidirectional)}}
			c[3].TerminationMessagePath, c[3].VolumeMounts = "/dev/words", []corev1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
		}, "none", "args", "command", "both")
		r.reaches("p", corev1.PodRunning)
		for name, want := range map[string]string{"none": "[] []", "args": "[] [x 1$(B)$(A)]", "command": "[/bin/1] []",
			"both": "[/bin/1] [x 1$(B)$(A)]"} {
			c := r.rt.newest(name)
			if got := fmt.Sprint(c.Command, c.Args); strings.Replace(got, "][", "] [", 1) != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
			at := map[string]*cri.Mount{}
			for _, m := range c.Mounts {
				if at[m.ContainerPath] != nil {
					t.Errorf("%s: twice: %v", name, m)
				}
				at[m.ContainerPath] = m
				want := map[string]cri.MountPropagation{"/in": cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER,
					"/both": cri.MountPropagation_PROPAGATION_BIDIRECTIONAL}[m.ContainerPath]
				if m.Propagation != want {
					t.Errorf("%s: %s: mounts are propagated as %v", name, m.ContainerPath, m.Propagation)
				}
			}
			words, hosts := "/dev/termination-log", "/etc/hosts"
			if name == "both" {
				words = "/dev/words"
			}
			if own := at[hosts].HostPath != hosts; own != (name != "both") {
				t.Errorf("%s: its hosts file is %v", name, at[hosts])
			}
			if info, err := os.Stat(at[words].GetHostPath()); err != nil || info.Mode() != 0o666 {
				t.Errorf("%s: last words: %v, %v", name, info, err)
			}
		}
	})
}

// On the machine's network a pod has the machine's host name, whatever it says.
func TestHostnameOfHost(t *testing.T) {
	simulate(t, func(r *rig) {
		for name, host := range map[string]bool{"own": false, "host": true} {
			r.pod(name, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.HostNetwork = "me", host }, "a")
			r.reaches(name, corev1.PodRunning)
		}
		r.rt.mu.Lock()
		defer r.rt.mu.Unlock()
		for _, b := range r.rt.boxReqs {
			if own := b.Config.Metadata.Name == "own"; own != (b.Config.Hostname == "me") || !own && b.Config.Hostname != "" {
				t.Errorf("%s: %q", b.Config.Metadata.Name, b.Config.Hostname)
			}
		}
	})
}

// A node's lease is the node's, and renewed often; the node itself is written only when there is something new, or every few minutes.
func TestLease(t *testing.T) {
	simulate(t, func(r *rig) {
		r.until("the node is ready", func() bool { s, _ := r.readiness(); return s == corev1.ConditionTrue })
		r.rests(time.Minute)
		n := resource.Get(r.Read(), kinds.Nodes, "", "n")
		l := resource.Get(r.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n")
		if *l.Spec.HolderIdentity != "n" || *l.Spec.LeaseDurationSeconds != leaseFor || len(l.OwnerReferences) != 1 ||
			l.OwnerReferences[0].Kind != "Node" || l.OwnerReferences[0].UID != n.UID {
			t.Errorf("%+v", l)
		}
		last, renewed, written := l, 0, 0
		for range 120 { // a look a second
			r.rests(time.Second)
			if l = resource.Get(r.Read(), kinds.Leases, corev1.NamespaceNodeLease, "n"); l.Spec.RenewTime.After(last.Spec.RenewTime.Time) {
				renewed, last = renewed+1, l
			}
			if now := resource.Get(r.Read(), kinds.Nodes, "", "n"); now.ResourceVersion != n.ResourceVersion {
				written, n = written+1, now
			}
		}
		if renewed < 120/(leaseFor/4)-1 || renewed > 24 || written > 0 {
			t.Errorf("in two minutes the lease was renewed %d times, and the node written %d times", renewed, written)
		}
	})
}
