package cluster

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/internal/testcluster"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kit/whole"
	"github.com/kloop-dev/kloop/resource"
)

// TestVolumeCounts counts claims and volumes by what they are and whether they have each other, and attachments by what becomes of them.
func TestVolumeCounts(t *testing.T) {
	c := testcluster.Start(t)
	put := func(k resource.Kind, obj resource.Object, text string) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
			t.Fatal(err)
		}
		made, err := c.Create(t.Context(), k, obj)
		if err != nil {
			t.Fatal(err)
		}
		obj.SetResourceVersion(made.GetResourceVersion())
		obj.SetUID(made.GetUID())
		if _, err := c.Update(t.Context(), k, obj, "status"); err != nil {
			t.Fatal(err)
		}
	}
	told := func() string {
		var list []string
		counts := volumeCounts(c.Read(), whole.Kit().Attached)
		for s := range maps.Keys(counts) {
			name := strings.Split(s.of.String(), `"`)[1]
			list = append(list, fmt.Sprintf("%s %q %v", strings.TrimPrefix(name, "pv_collector_"), s.labels[:s.n], counts[s]))
		}
		slices.Sort(list)
		return strings.Join(list, "\n")
	}
	if got := told(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	if _, err := c.Create(t.Context(), kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
		t.Fatal(err)
	}
	const size, modes = `storage: 1Gi`, `accessModes: [ReadWriteOnce]`
	for i, v := range []string{`csi: {driver: d.io, volumeHandle: x}, volumeMode: Block`,
		`csi: {driver: d.io, volumeHandle: z}, storageClassName: fast`, `hostPath: {path: /x}`,
		`nfs: {path: /x, server: s}`, `fc: {wwids: [a]}`} {
		phase := []string{"Bound", "Available", "Available", "Released", "Failed"}[i]
		put(kinds.PersistentVolumes, &corev1.PersistentVolume{}, fmt.Sprintf(`{metadata: {name: v%d}, spec: {%s, %s, capacity: {%s}}, `+
			`status: {phase: %s}}`, i, v, modes, size, phase))
	}
	for i, v := range []string{`storageClassName: fast, volumeAttributesClassName: gold`, `storageClassName: fast`, `storageClassName: ''`} {
		phase := []string{"Pending", "Bound", "Lost"}[i]
		put(kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{}, fmt.Sprintf(`{metadata: {namespace: ns, name: c%d}, spec: {%s, %s, `+
			`resources: {requests: {%s}}}, status: {phase: %s}}`, i, v, modes, size, phase))
	}
	for i, status := range []string{`{attached: true}`, `{attached: true}`, `{attached: false}`} {
		put(kinds.VolumeAttachments, &storagev1.VolumeAttachment{}, fmt.Sprintf(`{metadata: {name: a%d, finalizers: [d.io/detach]}, `+
			`spec: {attacher: d.io, nodeName: n, source: {persistentVolumeName: v%d}}, status: %s}`, i, i, status))
	}
	if err := c.Delete(t.Context(), kinds.VolumeAttachments, "", "a1", nil); err != nil {
		t.Fatal(err)
	}
	want := `attachdetach_controller_total_volumes ["kubernetes.io/csi:d.io" "actual_state_of_world"] 2
attachdetach_controller_total_volumes ["kubernetes.io/csi:d.io" "desired_state_of_world"] 2
bound_pv_count [""] 1
bound_pvc_count ["ns" "fast" ""] 1
total_pv_count ["N/A" "Filesystem"] 1
total_pv_count ["kubernetes.io/csi:d.io" "Block"] 1
total_pv_count ["kubernetes.io/csi:d.io" "Filesystem"] 1
total_pv_count ["kubernetes.io/host-path" "Filesystem"] 1
total_pv_count ["kubernetes.io/nfs" "Filesystem"] 1
unbound_pv_count [""] 3
unbound_pv_count ["fast"] 1
unbound_pvc_count ["ns" "" ""] 1
unbound_pvc_count ["ns" "fast" "gold"] 1`
	if got := told(); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// TestLabelFigures has the conflicts of labels in the metrics of a server that runs the loop which looks for them, and of no other.
func TestLabelFigures(t *testing.T) {
	for asked, want := range map[string]bool{"*": false, "selinux-warning-controller": true} {
		t.Run(asked, func(t *testing.T) {
			kit := whole.Kit()
			kit.Labels = func(_ resource.Reader, add func([7]string)) {
				add([7]string{"SELinuxLabel", "ns", "a", "x", "ns", "b", "y"})
			}
			c, err := Start(t.Context(), Config{DataDir: t.TempDir(), Kit: kit, Controllers: []string{asked}, Log: slog.New(slog.DiscardHandler),
				Authn: Authn{TokenFile: write(t, "s3cret,ann,1,\"system:masters\"\n")}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Stop() })
			const series = `selinux_warning_controller_selinux_volume_conflict{pod1_name="a",pod1_namespace="ns",pod1_value="x",pod2_name="b",` +
				`pod2_namespace="ns",pod2_value="y",property="SELinuxLabel"} 1`
			has := func(text string) bool {
				_, body := ask(t, c, "s3cret", "/metrics")
				return strings.Contains(body, text)
			}
			loop := "deployment"
			if want {
				loop = "selinux-warning"
			}
			eventually.True(t, "the loops run", func() bool { return has(`workqueue_depth{name="` + loop + `"}`) })
			if has(series) != want {
				t.Errorf("it is there: %v", !want)
			}
		})
	}
}
