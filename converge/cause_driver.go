package converge

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var unregistered = regexp.MustCompile(`driver name (\S+) not found in the list of registered CSI drivers`)

// driverMissing: a volume is mounted by a CSI driver that has not registered on the pod's node.
func driverMissing(l *look, p *corev1.Pod, text string) *Finding {
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
	return &Finding{Says: "waits for its volume, whose CSI driver " + name + " is not registered on " + node, Owner: driver, State: Missing,
		Waits: on("Field", Ref{kinds.CSINodes, "", node}, "spec.drivers"), Next: does(driver, "mounts it when it has registered on %s", node),
		Advice: []string{
			"install the driver, or see why its DaemonSet has no running pod there: kubectl get pods -A --field-selector spec.nodeName=" + node,
			"its node-driver-registrar must mount /var/lib/kubelet/plugins_registry"}}
}

var answered = regexp.MustCompile(`rpc error: code = (\w+) desc = (.*)`)

// driverRefuses: the CSI driver on the node answers with an error.
func driverRefuses(l *look, p *corev1.Pod, text string) *Finding {
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
	says := "waits for its volume: " + driver + " on " + p.Spec.NodeName + " answers " + m[1] + ": " + strings.TrimSpace(m[2])
	f := &Finding{Says: says, Owner: driver, State: BackingOff, Waits: forName("Volume", volume),
		Next:   does(agentOf(p), "asks the driver again"),
		Advice: []string{"read the log of " + driver + " in its pod on " + p.Spec.NodeName}}
	f.byDriver(m[2])
	if m[1] == "DeadlineExceeded" {
		f.Says = "waits for its volume: " + driver + " on " + p.Spec.NodeName + " does not answer in time"
	}
	return f
}

// driven are words of drivers of storage, in lower case, and what helps.
var driven = []saying{
	{"could not correct them", "",
		"what is on the volume is damaged: scale its workload down, attach it by hand and run fsck, or bring back a snapshot"},
	{"limitexceeded", "", fullNode}, {"limit*exceeded", "", fullNode}, {"maximum number of", "", fullNode},
	{"modification rate", "", "wait as long as it says: it tries again by itself"},
	{"not authorized", "", "give the driver's account that right at the provider of the storage"},
	{"accessdenied", "", "give the driver's account that right at the provider of the storage"},
	{"permissiondenied", "", "give the driver's account that right at the provider of the storage"},
	{"resourceexhausted", "", "make room in the storage behind the driver"},
	{"less than the size", "", "ask for at least as much as the source has"},
	{"no topology key found", "", "see whether the driver's pod there runs: kubectl get csinodes"},
	{"still being used", "", "see who has it still: kubectl get volumeattachments"},
}

const fullNode = "raise that limit, or have fewer such volumes there: kubectl get volumeattachments"

// byDriver has the advice that goes with a driver's words, in place of what holds for any but where more is to be read.
func (f *Finding) byDriver(text string) {
	if s, ok := meaning(driven, strings.ToLower(text)); ok {
		f.Advice = append([]string{s.advice}, slices.DeleteFunc(f.Advice, func(a string) bool {
			return !strings.Contains(a, "kubectl describe")
		})...)
	}
}

func attachmentHealth(_ *World, a *storagev1.VolumeAttachment) Health {
	if e := a.Status.AttachError; e != nil && !a.Status.Attached {
		return Health{Says: "is not attached", Want: "status.attached=true", Have: "status.attachError set", Since: e.Time.Time}
	}
	return Health{}
}

// attachFails: the driver can't attach a volume to a node.
func attachFails(l *look) *Finding {
	a := l.obj.(*storagev1.VolumeAttachment)
	if a.Status.AttachError == nil {
		return nil
	}
	f := &Finding{Says: "can't be attached to " + a.Spec.NodeName + ": " + a.Status.AttachError.Message, State: BackingOff,
		Next: does("the driver "+a.Spec.Attacher, "tries again"), Advice: []string{"read the log of the driver " + a.Spec.Attacher}}
	f.Owner = f.Next.Who
	f.byDriver(a.Status.AttachError.Message)
	return f
}
