package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/coldsort"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/node/cgroup"
)

// kernelUse has the kernel's counts for a pod, and for its containers by their ids.
type kernelUse struct {
	pod        cgroup.Use
	containers map[string]cgroup.Use
}

// volumeFamilies tell how full the volumes of claims are, and how many volumes there are by their sort.
func (a *api) volumeFamilies(ctx context.Context, pods []*corev1.Pod) []*family {
	var f families
	told := map[string]bool{} // claims that several pods share count once
	for _, p := range pods {
		if a.cfg.Volumes == nil || core.Terminal(p) {
			continue
		}
		for _, u := range a.cfg.Volumes(ctx, p) {
			labels := fmt.Sprintf("{namespace=%q,persistentvolumeclaim=%q}", u.Namespace, u.Claim)
			if u.Claim == "" || told[labels] {
				continue
			}
			told[labels] = true
			for _, m := range []struct {
				what, help string
				v          *uint64
			}{{"capacity_bytes", "Capacity in bytes of the volume", &u.Size},
				{"available_bytes", "Number of available bytes in the volume", &u.Free},
				{"used_bytes", "Number of used bytes in the volume", &u.Used}, {"inodes", "Maximum number of inodes in the volume", &u.Inodes},
				{"inodes_free", "Number of free inodes in the volume", &u.InodesFree},
				{"inodes_used", "Number of used inodes in the volume", &u.InodesUsed}} {
				f.add("kubelet_volume_stats_"+m.what, "gauge", m.help, labels, m.v, 1, metav1.Time{})
			}
		}
	}
	return append(f.order, volumeCounts(pods))
}

// volumeCounts counts the volumes of each sort: those that pods want, and those of pods that have all theirs.
func volumeCounts(pods []*corev1.Pod) *family {
	count := map[[2]string]int{}
	for _, p := range pods {
		if core.Terminal(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			sort := sortOf(&p.Spec.Volumes[i])
			count[[2]string{sort, "desired_state_of_world"}]++
			if hasSandbox(p) {
				count[[2]string{sort, "actual_state_of_world"}]++
			}
		}
	}
	f := newFamily("volume_manager_total_volumes", "gauge", "Number of volumes in Volume Manager")
	for _, k := range coldsort.Sorted(maps.Keys(count), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		f.sample(fmt.Sprintf("{plugin_name=%q,state=%q}", k[0], k[1]), float64(count[k]), metav1.Time{})
	}
	return f
}

// sortOf is the kubelet's name for a sort of volume.
func sortOf(v *corev1.Volume) string {
	name := "other"
	switch {
	case v.EmptyDir != nil:
		name = "empty-dir"
	case v.ConfigMap != nil:
		name = "configmap"
	case v.Secret != nil:
		name = "secret"
	case v.DownwardAPI != nil:
		name = "downward-api"
	case v.Projected != nil:
		name = "projected"
	case v.HostPath != nil:
		name = "host-path"
	case v.CSI != nil:
		name = "csi"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		name = "persistent-claim"
	}
	return "kubernetes.io/" + name
}

// hasSandbox says that the pod's volumes are there, and its network is.
func hasSandbox(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return p.Status.Phase == corev1.PodRunning
}

// certificate tells for how long the agent's own certificate holds.
func (a *api) certificate(now time.Time) *family {
	f := newFamily("kubelet_certificate_manager_server_ttl_seconds", "gauge",
		"Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate, in seconds; +Inf if it can't be told")
	if a.cfg.Serving == nil {
		return f
	}
	pair, err := a.cfg.Serving(&tls.ClientHelloInfo{})
	if err != nil || pair == nil || len(pair.Certificate) == 0 {
		return f
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err == nil {
		f.sample("", leaf.NotAfter.Sub(now).Truncate(time.Second).Seconds(), metav1.Time{})
	}
	return f
}
