package serve

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/node/csi"
)

// TestVolumeOf has volumes in the form that readers of the summary know.
func TestVolumeOf(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	got, err := json.Marshal(volumeOf(csi.Usage{Volume: "data", Namespace: "ns", Claim: "c", At: at, Used: 1, Free: 2, Size: 3, Inodes: 9}))
	const want = `{"name":"data","time":"1970-01-01T00:00:00Z","availableBytes":2,"capacityBytes":3,"usedBytes":1,"inodesFree":0,"inodes":9,` +
		`"inodesUsed":0,"pvcRef":{"name":"c","namespace":"ns"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestVolumeFigures tells of claims once, with their names, and counts volumes by their sort: those that are wanted, and those that are
// there.
func TestVolumeFigures(t *testing.T) {
	usage := map[string][]csi.Usage{"a": {{Volume: "data", Namespace: "ns", Claim: "c", Size: 9, Used: 2, Free: 7, Inodes: 6, InodesUsed: 2,
		InodesFree: 4}, {Volume: "tmp", Size: 5}}, "b": {{Volume: "data", Namespace: "ns", Claim: "c", Size: 9}},
		"c": {{Volume: "raw", Namespace: "ns", Claim: "raw", Size: 8}}}
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}
	own := corev1.Volume{Name: "raw", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	tmp := corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	pod := func(name string, phase corev1.PodPhase, volumes ...corev1.Volume) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Volumes: volumes}, Status: corev1.PodStatus{Phase: phase}}
		p.Name = name
		return p
	}
	a := &api{cfg: Config{Volumes: func(_ context.Context, p *corev1.Pod) []csi.Usage { return usage[p.Name] }}}
	var lines []string
	for _, f := range a.volumeFamilies(t.Context(), []*corev1.Pod{pod("a", corev1.PodRunning, claim, tmp), pod("b", corev1.PodPending, claim),
		pod("c", corev1.PodRunning, own), pod("a", corev1.PodSucceeded, claim)}) {
		for line := range strings.Lines(f.String()) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	slices.Sort(lines)
	const c, raw = `{namespace="ns",persistentvolumeclaim="c"}`, `{namespace="ns",persistentvolumeclaim="raw"}`
	const claims, dirs = `{plugin_name="kubernetes.io/persistent-claim",state=`, `{plugin_name="kubernetes.io/empty-dir",state=`
	want := []string{"kubelet_volume_stats_available_bytes" + c + " 7", "kubelet_volume_stats_capacity_bytes" + c + " 9",
		"kubelet_volume_stats_inodes" + c + " 6", "kubelet_volume_stats_inodes_free" + c + " 4", "kubelet_volume_stats_inodes_used" + c + " 2",
		"kubelet_volume_stats_used_bytes" + c + " 2", "kubelet_volume_stats_available_bytes" + raw + " 0",
		"kubelet_volume_stats_capacity_bytes" + raw + " 8", "kubelet_volume_stats_inodes" + raw + " 0",
		"kubelet_volume_stats_inodes_free" + raw + " 0", "kubelet_volume_stats_inodes_used" + raw + " 0",
		"kubelet_volume_stats_used_bytes" + raw + " 0", "volume_manager_total_volumes" + claims + `"actual_state_of_world"} 2`,
		"volume_manager_total_volumes" + claims + `"desired_state_of_world"} 3`,
		"volume_manager_total_volumes" + dirs + `"actual_state_of_world"} 1`,
		"volume_manager_total_volumes" + dirs + `"desired_state_of_world"} 1`}
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
