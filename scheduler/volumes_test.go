package scheduler

import (
	"iter"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/localvolume"
	"github.com/kloop-dev/kloop/resource"
)

// shelf is a Reader of a few objects.
type shelf map[resource.Kind][]resource.Object

func (s shelf) Revision(resource.Kind) int64 { return 0 }
func (s shelf) Lookup(k resource.Kind, ns, name string) resource.Object {
	for _, o := range s[k] {
		if o.GetNamespace() == ns && o.GetName() == name {
			return o
		}
	}
	return nil
}
func (s shelf) Each(k resource.Kind, _ string) iter.Seq[resource.Object] {
	return func(yield func(resource.Object) bool) {
		for _, o := range s[k] {
			if !yield(o) {
				return
			}
		}
	}
}
func (s shelf) ByOwner(resource.Kind, string) iter.Seq[resource.Object]                 { return nil }
func (s shelf) ByField(resource.Kind, string, string) iter.Seq[resource.Object]         { return nil }
func (s shelf) ByLabel(resource.Kind, string, string, string) iter.Seq[resource.Object] { return nil }

func put[T resource.Object](s shelf, k resource.Kind, obj T, text string) {
	must(yaml.UnmarshalStrict([]byte(text), obj))
	s[k] = append(s[k], obj)
}

func csiVolume(name string) string {
	return `{metadata: {name: ` + name + `}, spec: {csi: {driver: two.io, volumeHandle: ` + name + `}}}`
}

// TestVolumes decides a pod with one claim, c; another pod on n2 may use it too.
func TestVolumes(t *testing.T) {
	const done = `annotations: {pv.kubernetes.io/bind-completed: 'yes'}`
	zoneB := `nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}`
	const local = `capacity: {storage: 2Gi}, accessModes: [ReadWriteOnce], storageClassName: later`
	for _, test := range []struct {
		name       string
		meta, spec string   // of the claim
		volumes    []string // objects
		used       bool
		want       string
		minor      int
	}{
		{name: "immediate", spec: "storageClassName: now", want: "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		{name: "bound", meta: done, spec: "volumeName: pv", volumes: []string{`{metadata: {name: pv}}`}, want: "n1"},
		{name: "going", meta: done + `, deletionTimestamp: "2026-01-01T00:00:00Z"`, spec: "volumeName: pv",
			volumes: []string{`{metadata: {name: pv}}`},
			want:    `0/3 nodes are available: persistentvolumeclaim "c" is being deleted.`},
		{name: "bound elsewhere", meta: done, spec: "volumeName: pv", volumes: []string{`{metadata: {name: pv}, spec: {` + zoneB + `}}`},
			want: "n2"},
		{name: "bound in a zone", meta: done, spec: "volumeName: pv",
			volumes: []string{`{metadata: {name: pv, labels: {topology.kubernetes.io/zone: y__b}}}`}, want: "n2"},
		{name: "bound to nothing", meta: done, spec: "volumeName: pv",
			want: "0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."},
		{name: "for one pod, used", meta: done, spec: "volumeName: pv, accessModes: [ReadWriteOncePod]",
			volumes: []string{`{metadata: {name: pv}}`}, used: true,
			want: "0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode " +
				"already in-use by another pod."},
		{name: "for one pod, free", meta: done, spec: "volumeName: pv, accessModes: [ReadWriteOncePod]",
			volumes: []string{`{metadata: {name: pv}}`}, want: "n1"},
		{name: "provisioned", spec: "storageClassName: later", want: "n1"},
		{name: "names a volume that it is not bound to yet", spec: "storageClassName: later, volumeName: pv",
			volumes: []string{`{metadata: {name: pv}, spec: {` + zoneB + `, claimRef: {namespace: default, name: c}}}`},
			want:    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		{name: "provisioned in a zone", spec: "storageClassName: there", want: "n2"},
		{name: "selected", meta: "annotations: {volume.kubernetes.io/selected-node: n3}", spec: "storageClassName: later", want: "n3"},
		{name: "no volume", spec: "storageClassName: byhand",
			want: "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."},
		{name: "a volume in reach", spec: "storageClassName: byhand", want: "n2", volumes: []string{
			`{metadata: {name: pv}, spec: {` + strings.Replace(local, "later", "byhand", 1) + `, ` + zoneB + `}, status: {phase: Available}}`}},
		{name: "a volume of others", spec: "storageClassName: byhand",
			want: "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
			volumes: []string{`{metadata: {name: pv}, spec: {` + strings.Replace(local, "later", "byhand",
				1) + `, claimRef: {namespace: x, name: c}}, status: {phase: Available}}`}},
		{name: "as many as the driver attaches", spec: "storageClassName: csi", volumes: []string{}, want: "n2"},
		{name: "as many as are not detached yet", spec: "storageClassName: two", volumes: []string{csiVolume("a"), csiVolume("b")}, want: "n2"},
		{name: "which is attached already", meta: done, spec: "volumeName: a", volumes: []string{csiVolume("a"), csiVolume("b")}, want: "n1"},
		{name: "where the driver is", spec: "storageClassName: strict", want: "n2"},
		{name: "where most stays free", spec: "storageClassName: free, resources: {requests: {storage: 5Gi}}", want: "n3"},
		{name: "wherever there is space, before that counted",
			spec: "storageClassName: free, resources: {requests: {storage: 5Gi}}", want: "n1", minor: 36},
		{name: "the volume that is filled least", spec: "storageClassName: byhand, resources: {requests: {storage: 1Gi}}", want: "n2",
			volumes: []string{
				`{metadata: {name: a}, spec: {capacity: {storage: 2Gi}, ` +
					`storageClassName: byhand, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, ` +
					`values: [a]}]}]}}}, status: {phase: Available}}`,
				`{metadata: {name: b}, spec: {capacity: {storage: 4Gi}, storageClassName: byhand, ` + zoneB + `}, status: {phase: Available}}`}},
		{name: "where there is space", spec: "storageClassName: spacious, resources: {requests: {storage: 5Gi}}", want: "n3"},
		{name: "where there is not", spec: "storageClassName: spacious, resources: {requests: {storage: 50Gi}}",
			want: "0/3 nodes are available: 3 node(s) did not have enough free storage."},
		{name: "lost", meta: done, spec: "volumeName: pv}, status: {phase: Lost",
			want: `0/3 nodes are available: persistentvolumeclaim "c" bound to non-existent persistentvolume "pv".`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := shelf{}
			put(s, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{},
				`{metadata: {namespace: default, name: c, `+test.meta+`}, spec: {`+test.spec+`}}`)
			for _, v := range test.volumes {
				put(s, kinds.PersistentVolumes, &corev1.PersistentVolume{}, v)
			}
			put(s, kinds.StorageClasses, &storagev1.StorageClass{}, `{metadata: {name: now}, provisioner: x.io/y, volumeBindingMode: Immediate}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: later}, provisioner: x.io/y, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: there}, provisioner: x.io/y, volumeBindingMode: WaitForFirstConsumer,
  allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [b]}]}]}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: byhand}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: csi}, provisioner: csi.io, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: spacious}, provisioner: space.io, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.CSINodes, &storagev1.CSINode{},
				`{metadata: {name: n1}, spec: {drivers: [{name: csi.io, nodeID: x, allocatable: {count: 0}}, `+
					`{name: two.io, nodeID: x, allocatable: {count: 2}}]}}`)
			put(s, kinds.CSINodes, &storagev1.CSINode{}, `{metadata: {name: n2}, spec: {drivers: [{name: strict.io, nodeID: x}]}}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: two}, provisioner: two.io, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: strict}, provisioner: strict.io, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: free}, provisioner: space.io, volumeBindingMode: WaitForFirstConsumer}`)
			put(s, kinds.CSIDrivers, &storagev1.CSIDriver{}, `{metadata: {name: strict.io}, spec: {preventPodSchedulingIfMissing: true}}`)
			for _, pv := range []string{"a", "b"} {
				put(s, kinds.VolumeAttachments, &storagev1.VolumeAttachment{},
					`{metadata: {name: `+pv+`}, spec: {attacher: two.io, nodeName: n1, source: {persistentVolumeName: `+pv+`}}}`)
				put(s, kinds.CSIStorageCapacities, &storagev1.CSIStorageCapacity{},
					`{metadata: {name: free-`+pv+`, namespace: x}, storageClassName: free, nodeTopology: {matchLabels: {zone: `+pv+`}}, capacity: 20Gi}`)
			}
			put(s, kinds.CSIStorageCapacities, &storagev1.CSIStorageCapacity{},
				`{metadata: {name: free-c, namespace: x}, storageClassName: free, nodeTopology: {matchLabels: {zone: c}}, capacity: 80Gi}`)
			put(s, kinds.CSIDrivers, &storagev1.CSIDriver{}, `{metadata: {name: space.io}, spec: {storageCapacity: true}}`)
			put(s, kinds.CSIStorageCapacities, &storagev1.CSIStorageCapacity{},
				`{metadata: {name: a, namespace: x}, storageClassName: spacious, nodeTopology: {matchLabels: {zone: b}}, capacity: 1Gi}`)
			put(s, kinds.CSIStorageCapacities, &storagev1.CSIStorageCapacity{},
				`{metadata: {name: b, namespace: x}, storageClassName: spacious, nodeTopology: {matchLabels: {zone: c}}, `+
					`capacity: 80Gi, maximumVolumeSize: 10Gi}`)
			st := site(node("n1", "zone: a, topology.kubernetes.io/zone: a", ""), node("n2", "zone: b, topology.kubernetes.io/zone: b", ""),
				node("n3", "zone: c, topology.kubernetes.io/zone: c", ""))
			st.read = s
			if test.minor > 0 {
				var err error
				if st.on, err = features.New(test.minor, nil); err != nil {
					t.Fatal(err)
				}
			}
			const uses = "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]"
			if test.used {
				st.add(pod("other", "", "", uses), "n2")
			}
			if got := st.where(pod("p", "", "", uses)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestLocalStorage places claims of local storage by the room that nodes say they have; one that says nothing may have any.
func TestLocalStorage(t *testing.T) {
	for size, want := range map[string]string{"10Gi": "n2", "90Gi": "n3",
		"200Gi": "0/2 nodes are available: 2 node(s) did not have enough free storage."} {
		t.Run(size, func(t *testing.T) {
			s := shelf{}
			put(s, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{},
				`{metadata: {namespace: default, name: c}, spec: {storageClassName: local, resources: {requests: {storage: `+size+`}}}}`)
			put(s, kinds.StorageClasses, &storagev1.StorageClass{},
				`{metadata: {name: local}, provisioner: `+localvolume.Provisioner+`, volumeBindingMode: WaitForFirstConsumer}`)
			n2, n3 := node("n2", "", ""), node("n3", "", "")
			n2.Annotations = map[string]string{localvolume.Free: strconv.FormatInt(80<<30, 10)}
			n3.Annotations = map[string]string{localvolume.Free: strconv.FormatInt(100<<30, 10)}
			if size == "10Gi" {
				n3.Annotations[localvolume.Free] = strconv.FormatInt(12<<30, 10) // the other one stays emptier
			}
			st := site(n2, n3)
			st.read = s
			if got := st.where(pod("p", "", "", "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]")); got != want {
				t.Errorf("%s: got %q, want %q", size, got, want)
			}
		})
	}
}
