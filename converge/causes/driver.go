package causes

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var unregistered = pattern.New(`driver name (\S+) not found in the list of registered CSI drivers`)

// driverMissing: a volume is mounted by a CSI driver that has not registered on the pod's node.
func driverMissing(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	m := unregistered.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	name, node := m[1], p.Spec.NodeName
	if n := resource.Get(l.Read, kinds.CSINodes, "", node); n != nil && slices.ContainsFunc(n.Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == name }) {
		return nil // it has by now
	}
	driver := "the driver " + name
	f := &converge.Finding{Says: "waits for its volume, whose CSI driver " + name + " is not registered on " + node, Owner: driver,
		State: converge.Missing,
		Waits: converge.On("Field", converge.Ref{Kind: kinds.CSINodes, NS: "", Name: node}, "spec.drivers"),
		Next: converge.Does(driver, "mounts it when it has registered on "+
			"%s", node),
		Advice: []string{
			"install the driver, or see why its DaemonSet has no running pod there: kubectl get pods -A --field-selector spec.nodeName=" +
				node,
			"its node-driver-registrar must mount /var/lib/kubelet/plugins_registry"}}
	driverDown(l, f, name, kinds.DaemonSets)
	if len(f.Below) == 0 {
		keptFrom(l, f, name, node)
	}
	return f
}

// keptFrom tells what keeps the DaemonSet of a driver off a node.
func keptFrom(l *converge.Look, f *converge.Finding, driver, node string) {
	n := resource.Get(l.Read, kinds.Nodes, "", node)
	for _, d := range resource.List(l.Read, kinds.DaemonSets, "") {
		p := &corev1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
		if n == nil || !drives(d, driver) {
			continue
		}
		asks := nodeaffinity.GetRequiredNodeAffinity(p)
		why := fixed(p, asks, n)
		if why == "" {
			continue
		}
		f.Says += "; daemonset/" + d.Name + " in namespace " + d.Namespace + " has no pod there, as the node " + why
		at := &converge.Look{World: l.World, Kind: kinds.DaemonSets, Obj: d}
		if t := toleration(at, p, node); t != "" && strings.HasPrefix(why, "has the taint ") {
			f.Advice, f.State = append([]string{t}, f.Advice[0]), converge.Blocked
		}
		return
	}
}

// common are words that the names of many drivers have.
var common = pattern.New(`^(csi|com|io|k8s|sigs|x|storage|aws|azure|gke|google|googleapis|cloud|driver|drivers|org|dev|net|` +
	`cluster|local|kubernetes|example)$`)

// driverDown has the workloads that seem to run a driver, and are not well or are scaled to 0, as the cause: every word that the driver's
// name has of its own stands in theirs, or in their images.
func driverDown(l *converge.Look, f *converge.Finding, driver string, of ...resource.Kind) {
	for _, k := range of {
		for obj := range l.Read.Each(k, "") {
			if !drives(obj, driver) {
				continue
			}
			if switchedOff(obj) {
				name := new(converge.ObjectOf(k, obj)).Short()
				f.Says, f.State = f.Says+", and "+name+" in namespace "+obj.GetNamespace()+" is scaled to 0", converge.Missing
				f.Advice = []string{"kubectl scale " + name + " -n " + obj.GetNamespace() + " --replicas=1"}
			} else if !l.Health(k, obj).Converged() {
				f.Below = append(f.Below, converge.RefTo(k, obj))
			}
		}
	}
}

// drives says that a workload seems to run a driver.
func drives(obj resource.Object, driver string) bool {
	t, text, own := health.TemplateOf(obj), obj.GetNamespace()+" "+obj.GetName(), false
	if t == nil {
		return false
	}
	for i := range t.Spec.Containers {
		c := &t.Spec.Containers[i]
		text += " " + c.Image
		for _, arg := range slices.Concat(c.Args, c.Command) { // it is called so
			if strings.HasSuffix(arg, "="+driver) {
				return true
			}
		}
	}
	for _, word := range strings.Fields(strings.NewReplacer(".", " ", "/", " ", "-", " ").Replace(driver)) {
		if common.MatchString(word) {
			continue
		}
		if own = strings.Contains(text, word); !own {
			return false
		}
	}
	return own && (strings.Contains(text, "csi") || strings.Contains(text, "provisioner"))
}

// switchedOff says that a workload is scaled to 0.
func switchedOff(obj resource.Object) bool {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(obj.Spec.Replicas, 1) == 0
	case *appsv1.StatefulSet:
		return ptr.Deref(obj.Spec.Replicas, 1) == 0
	}
	return false
}

var answered = pattern.New(`rpc error: code = (\w+) desc = (.*)`)

// driverRefuses: the CSI driver on the node answers with an error.
func driverRefuses(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	m := answered.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	driver, volume := "the CSI driver", ""
	for _, claim := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, claim)
		if c == nil {
			continue
		}
		v := resource.Get(l.Read, kinds.PersistentVolumes, "", c.Spec.VolumeName)
		if v != nil && v.Spec.CSI != nil && (volume == "" || strings.Contains(text, `"`+v.Name+`"`)) {
			driver, volume = "the driver "+v.Spec.CSI.Driver, v.Name
		}
	}
	class := ""
	for _, v := range p.Spec.Volumes {
		if v.CSI != nil && strings.Contains(text, `"`+v.Name+`"`) {
			driver, class = "the driver "+v.CSI.Driver, v.CSI.VolumeAttributes["secretProviderClass"]
		}
	}
	says := "waits for its volume: " + driver + " on " + p.Spec.NodeName + " answers " + m[1] + ": " + strings.TrimSpace(m[2])
	f := &converge.Finding{Says: says, Owner: driver, State: converge.BackingOff, Waits: converge.ForName("Volume", volume),
		Next: converge.Does(converge.AgentOf(p), "asks the driver again"),
		Advice: []string{"read the log of " + driver + " in its pod on " + p.Spec.NodeName +
			": kubectl get pods -A --field-selector spec.nodeName=" + p.Spec.NodeName}}
	if s, ok := words.Meaning(unmountable, m[2]); ok {
		f.Advice = append([]string{ofPod(p, s.Advice())}, f.Advice...)
	}
	if class != "" {
		ofProvider(l, f, p, class, m[2])
	}
	f.Below = behindDriver(l, driver, text)
	if m[1] == "DeadlineExceeded" {
		f.Says = "waits for its volume: " + driver + " on " + p.Spec.NodeName + " does not answer in time"
	}
	return f
}

// attachFails: the driver can't attach a volume to a node.
func attachFails(l *converge.Look) *converge.Finding {
	a := l.Obj.(*storagev1.VolumeAttachment)
	if a.Status.AttachError == nil {
		return nil
	}
	f := &converge.Finding{Says: "can't be attached to " + a.Spec.NodeName + ": " + a.Status.AttachError.Message,
		State:  converge.BackingOff,
		Next:   converge.Does("the driver "+a.Spec.Attacher, "tries again"),
		Advice: []string{"read the log of the driver " + a.Spec.Attacher + ", in the pod of its controller: kubectl get pods -A"}}
	f.Owner = f.Next.Who
	driverDown(l, f, a.Spec.Attacher, kinds.Deployments, kinds.StatefulSets)
	return f
}

// behindDriver finds the driver's own object of a volume, as Longhorn's Volume, that is not well: a kind of the driver's project whose
// object is named in its words.
func behindDriver(l *converge.Look, driver, text string) []converge.Ref {
	project := words.Domain(strings.TrimPrefix(driver, "the driver "))
	for _, k := range l.Kinds.All() {
		if !k.Info().Custom || words.Domain(k.Info().GVK.Group) != project || !strings.HasSuffix(k.Info().GVK.Kind, "Volume") {
			continue
		}
		for obj := range l.Read.Each(k, "") {
			if strings.Contains(text, " "+obj.GetName()+" ") && !l.Health(k, obj).Converged() {
				return []converge.Ref{converge.RefTo(k, obj)}
			}
		}
	}
	return nil
}

// unprovided finds the provider that the driver of secrets' stores does not see on the node.
var unprovided = pattern.New(`provider not found: provider "([a-z0-9-]+)"`)

// ofProvider advises where a driver of secrets' stores refuses: its provider is a DaemonSet of its own, and what is asked of it stands in a
// SecretProviderClass.
func ofProvider(l *converge.Look, f *converge.Finding, p *corev1.Pod, class, text string) {
	m := unprovided.FindStringSubmatch(text)
	if m == nil {
		k := general.KindNamed(l.World, "secrets-store.csi.x-k8s.io", "SecretProviderClass")
		if k == nil || l.Read.Lookup(k, p.Namespace, class) == nil {
			return
		}
		advice := "correct what it asks for, or its rights there: kubectl edit " + k.Info().GR().String() + " " + class + " -n " + p.Namespace
		tree, _ := words.Tree(l.Read.Lookup(k, p.Namespace, class))
		if field, _ := words.SpokenField(tree, text); field != "" {
			advice = "it speaks of " + field + "; " + advice
		}
		f.Advice = append([]string{advice}, f.Advice...)
		return
	}
	f.Advice = []string{"install the provider " + m[1] + " for that driver, which is a DaemonSet of its own; those that there are: " +
		"kubectl get daemonsets -A"}
	if !l.Sees(kinds.DaemonSets) {
		f.Advice = []string{"see whether the provider " + m[1] + " for that driver, which is a DaemonSet of its own, runs: kubectl get " +
			"daemonsets -A"}
	}
	for _, d := range resource.List(l.Read, kinds.DaemonSets, "") {
		if !strings.Contains(d.Name, "provider") || !strings.Contains(d.Name, m[1]) {
			continue
		}
		f.Says += "; daemonset/" + d.Name + " in namespace " + d.Namespace + " is to bring it"
		f.Waits = converge.On("Object", converge.RefTo(kinds.DaemonSets, d), "")
		f.Advice[0] = "see why it has no pod there that runs: kubectl get pods -o wide -n " + d.Namespace
		if t, advice := tolerating(l, converge.RefTo(kinds.DaemonSets, d), &d.Spec.Template.Spec, p.Spec.NodeName); t != "" {
			f.Says += ", and does not tolerate the taint " + t + " of that node"
			f.Advice[0] = advice
		}
		return
	}
}
