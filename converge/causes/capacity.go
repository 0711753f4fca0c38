package causes

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	kloop "github.com/kloop-dev/kloop/resource"
)

// What drivers tell of their room and of where it lies decides where a pod with a new volume fits. A driver that tells nothing, as one that
// registered on no node, looks to the scheduler like one without room.

// storageShort: no node has room for a volume that is still to be made.
func storageShort(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(reasonOf(l, p, text), noStorage) {
		return nil
	}
	f := &converge.Finding{State: converge.Blocked, Waits: converge.ForName("Node", "with room for its claim"),
		Says:   "fits on no node because of its claim: by what their drivers tell, none has room for so large a volume",
		Next:   converge.Does("scheduler", "tries again when a node or pod changes so that it could fit"),
		Advice: []string{"ask for less, or give the storage more room: kubectl get csistoragecapacities -A"}}
	for _, name := range core.ClaimNames(p) {
		c := kloop.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c == nil || c.Spec.VolumeName != "" {
			continue
		}
		class := health.ClassOf(l.World, c)
		if class == nil || kloop.Get(l.Read, kinds.CSIDrivers, "", class.Provisioner) == nil {
			continue
		}
		if says, advice := untelling(l, class); says != "" {
			f.Says, f.Advice = "fits on no node because of its claim "+name+": "+says, []string{advice}
			driverDown(l, f, class.Provisioner, kinds.DaemonSets)
			break
		}
		want := c.Spec.Resources.Requests[corev1.ResourceStorage]
		if most, known := mostRoom(l, class.Name); known {
			f.Says += " (" + want.String() + "; the most that one tells of is " + most.String() + ")"
			break
		}
	}
	f.Says += ": " + text
	return f
}

// untelling says why nobody can know how much room a class has, or where; "": that is known.
func untelling(l *converge.Look, class *storagev1.StorageClass) (says, advice string) {
	keys, registered, known := topologies(l, class.Provisioner)
	if known && !registered {
		return "its driver " + class.Provisioner + " has registered on no node", nodeless
	}
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			if known && len(keys) > 0 && !slices.Contains(keys, e.Key) {
				return "its class " + class.Name + " allows nodes by the label " + e.Key + ", by which its driver does not tell them apart (" +
						words.List(keys, 4) + ")",
					"name one of those in allowedTopologies of a class that is made anew, or have the driver's node part go by that label: " +
						"kubectl get storageclass " + class.Name + " -o yaml"
			}
		}
	}
	if _, told := mostRoom(l, class.Name); !told && l.Sees(kinds.CSIStorageCapacities, "") {
		return "nobody has told how much room there is for its class " + class.Name,
			"see whether its driver's controller runs, and its csi-provisioner with --enable-capacity: kubectl get pods -A"
	}
	return "", ""
}

const nodeless = "see why its DaemonSet has registered nowhere: its registrar has to have the node's own kubelet directory, which is not " +
	"/var/lib/kubelet everywhere: kubectl get csinodes -o yaml"

// topologies are the labels by which a driver tells nodes apart, and whether it has registered on any. Nobody knows where there are no
// CSINodes at all.
func topologies(l *converge.Look, driver string) (keys []string, registered, known bool) {
	all := map[string]bool{}
	for _, n := range kloop.List(l.Read, kinds.CSINodes, "") {
		known = true
		for _, d := range n.Spec.Drivers {
			if d.Name == driver {
				registered = true
				for _, key := range d.TopologyKeys {
					all[key] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), registered, known && l.Sees(kinds.CSINodes, "")
}

// mostRoom is the most that a driver tells of for volumes of a class.
func mostRoom(l *converge.Look, class string) (most resource.Quantity, known bool) {
	for _, c := range kloop.List(l.Read, kinds.CSIStorageCapacities, "") {
		if c.StorageClassName == class && c.Capacity != nil {
			if known = true; c.Capacity.Cmp(most) > 0 {
				most = *c.Capacity
			}
		}
	}
	return most, known
}
