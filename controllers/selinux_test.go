package controllers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/controllers/selinuxwarning"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// labelled stores a driver, a claim with its volume, and two pods that have it, of such specs.
func labelled(c *cluster, mounts bool, one, two string) {
	c.t.Helper()
	make1(c, kinds.CSIDrivers, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.io"},
		Spec: storagev1.CSIDriverSpec{SELinuxMount: &mounts}})
	pvc := &corev1.PersistentVolumeClaim{}
	unpack(c.t, `{metadata: {namespace: default, name: c}, spec: {storageClassName: "", volumeName: v, accessModes: [ReadWriteMany],
		resources: {requests: {storage: 1Gi}}}}`, pvc)
	make1(c, kinds.PersistentVolumeClaims, pvc)
	pv := &corev1.PersistentVolume{}
	unpack(c.t, `{metadata: {name: v}, spec: {accessModes: [ReadWriteMany], capacity: {storage: 1Gi}, csi: {driver: d.io, volumeHandle: h},
		claimRef: {namespace: default, name: c}}}`, pv)
	make1(c, kinds.PersistentVolumes, pv)
	for name, spec := range map[string]string{"one": one, "two": two} {
		p := &corev1.Pod{}
		unpack(c.t, fmt.Sprintf(`{metadata: {namespace: default, name: %s}, spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: c}}],
			containers: [{name: a, image: i, volumeMounts: [{name: data, mountPath: /x}]},
				{name: b, image: i, securityContext: {seLinuxOptions: {level: "s0:c5"}}}], %s}}`, name, spec), p)
		make1(c, kinds.Pods, p)
	}
}

func unpack(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// TestLabelsConflict tells pods that want one volume with different labels of SELinux, each once, and counts them as long as they do.
func TestLabelsConflict(t *testing.T) {
	const red = `seLinuxOptions: {user: system_u, role: system_r, type: container_t, level: "s0:c0,c1"}`
	const blue = `seLinuxOptions: {level: "s0:c98,c99"}`
	const full, short = "system_u:system_r:container_t:s0:c0,c1", ":::s0:c98,c99"
	pod := func(fields ...string) string { return "securityContext: {" + strings.Join(fields, ", ") + "}" }
	const recursive, mount = "seLinuxChangePolicy: Recursive", "seLinuxChangePolicy: MountOption"
	words := func(property, value, name, other string) string {
		return fmt.Sprintf("%s %q conflicts with pod %s that uses the same volume as this pod with %s %q. "+
			"If both pods land on the same node, only one of them may access the volume.", property, value, name, property, other)
	}
	policies := []string{"one SELinuxChangePolicyConflict " + words("SELinuxChangePolicy", "MountOption", "two", "Recursive"),
		"two SELinuxChangePolicyConflict " + words("SELinuxChangePolicy", "Recursive", "one", "MountOption")}
	for _, tt := range []struct {
		name     string
		mounts   bool
		one, two string
		want     []string
	}{
		{"two labels", true, pod(red), pod(blue), []string{"one SELinuxLabelConflict " + words("SELinuxLabel", full, "two", short),
			"two SELinuxLabelConflict " + words("SELinuxLabel", short, "one", full)}},
		{"one label", true, pod(red), pod(red, mount), nil},
		{"one of them leaves open what the node's policy says", true, pod(red), pod(`seLinuxOptions: {level: "s0:c0,c1"}`), nil},
		{"a driver that mounts with none", false, pod(red), pod(blue), nil},
		{"both file by file", true, pod(red, recursive), pod(blue, recursive), nil},
		{"one file by file", true, pod(red), pod(red, recursive), append([]string{
			"one SELinuxLabelConflict " + words("SELinuxLabel", full, "two", ""),
			"two SELinuxLabelConflict " + words("SELinuxLabel", "", "one", full)}, policies...)},
		{"neither has any", true, pod(), pod(recursive), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			simulate(t, 1, func(c *cluster) {
				labelled(c, tt.mounts, tt.one, tt.two)
				time.Sleep(time.Minute)
				synctest.Wait()
				told := func() (list []string) {
					for _, e := range resource.List(c.Read(), kinds.Events, "default") {
						if strings.HasPrefix(e.Reason, "SELinux") {
							list = append(list, e.InvolvedObject.Name+" "+e.Reason+" "+e.Message)
						}
						if strings.HasPrefix(e.Reason, "SELinux") && (e.Count > 1 || e.Type != corev1.EventTypeNormal) {
							c.t.Errorf("told %d times, as %s: %s", e.Count, e.Type, e.Message)
						}
					}
					slices.Sort(list)
					return list
				}
				slices.Sort(tt.want)
				if got := told(); !slices.Equal(got, tt.want) {
					t.Errorf("told %q\nwant %q", got, tt.want)
				}
				count := func() (n int) {
					selinuxwarning.Count(c.Read(), func([7]string) { n++ })
					return n
				}
				if n := count(); n != len(tt.want) {
					t.Errorf("%d series, want %d", n, len(tt.want))
				}
				edit(c, kinds.Pods, "default", "two", "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
				if n := count(); n != 0 {
					t.Errorf("%d series of a pod that ended", n)
				}
			})
		})
	}
}

// TestManyLabelsOfAPod tells a pod whose containers want a volume with several.
func TestManyLabelsOfAPod(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		labelled(c, true, `securityContext: {}`, `securityContext: {}`)
		p := &corev1.Pod{}
		unpack(t, `{metadata: {namespace: default, name: three}, spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: c}}],
			containers: [
			{name: a, image: i, volumeMounts: [{name: data, mountPath: /x}], securityContext: {seLinuxOptions: {level: "s0:c1"}}},
			{name: b, image: i, volumeMounts: [{name: data, mountPath: /x}], securityContext: {seLinuxOptions: {level: "s0:c2"}}}]}}`, p)
		make1(c, kinds.Pods, p)
		c.until("it is told", func(r resource.Reader) bool {
			return slices.ContainsFunc(resource.List(r, kinds.Events, "default"), func(e *corev1.Event) bool {
				return e.InvolvedObject.Name == "three" && e.Reason == "MultipleSELinuxLabels" && e.Type == corev1.EventTypeWarning &&
					e.Message == `Volume "data" is mounted twice with different SELinux labels inside this pod`
			})
		})
	})
}

// TestLabelsOfAVolumeTwice counts each conflict once where a pod has the volume under two names: a series that is told twice spoils all
// metrics of the server.
func TestLabelsOfAVolumeTwice(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		labelled(c, true, `securityContext: {seLinuxOptions: {level: "s0:c1"}}`, `securityContext: {seLinuxOptions: {level: "s0:c1"}}`)
		p := &corev1.Pod{}
		unpack(t, `{metadata: {namespace: default, name: three}, spec: {securityContext: {seLinuxOptions: {level: "s0:c2"}},
			volumes: [{name: x, persistentVolumeClaim: {claimName: c}}, {name: y, persistentVolumeClaim: {claimName: c}}],
			containers: [{name: a, image: i, volumeMounts: [{name: x, mountPath: /x}, {name: y, mountPath: /y}]}]}}`, p)
		make1(c, kinds.Pods, p)
		time.Sleep(time.Minute)
		synctest.Wait()
		series := map[[7]string]int{}
		selinuxwarning.Count(c.Read(), func(labels [7]string) { series[labels]++ })
		for labels, n := range series {
			if n > 1 {
				t.Errorf("%q is told %d times", labels, n)
			}
		}
		if len(series) != 4 {
			t.Errorf("%d series, want those of two pairs", len(series))
		}
	})
}
