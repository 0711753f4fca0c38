package converge

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// devices are the ways in which a node does not give a pod its devices, or does not get them back.
func devices() []Situation {
	of := []resource.Kind{kinds.Pods}
	return []Situation{
		{"DeviceDriverMissing", of, preparing(deviceDriverMissing)},
		{"DevicesNotPrepared", of, preparing(devicesNotPrepared)},
		{"DevicesHeld", of, devicesHeld},
		{"DeviceRefused", of, failedPod(deviceRefused)},
	}
}

// preparing limits a rule to pods that wait for devices on their node, and gives it what the agent said.
func preparing(see func(p *corev1.Pod, text string) *Finding) func(l *look) *Finding {
	return func(l *look) *Finding {
		p := l.obj.(*corev1.Pod)
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			return nil
		}
		e := l.warning(p.UID, "FailedPrepareDynamicResources")
		if e == nil || slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.ContainerID != "" }) {
			return nil // it is past its devices
		}
		f := see(p, strings.TrimPrefix(e.Message, "Failed to prepare dynamic resources: "))
		if f != nil {
			f.Error = eventFailure(e)
		}
		return f
	}
}

var noDriver = regexp.MustCompile(`DRA driver (\S+) is not registered`)

// deviceDriverMissing is the agent's: the scheduler places by ResourceSlices, which outlive a driver that went away.
func deviceDriverMissing(p *corev1.Pod, text string) *Finding {
	m := noDriver.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &Finding{Says: "waits for its devices: their driver " + m[1] + " is not registered on " + p.Spec.NodeName,
		Owner: "the driver " + m[1], State: Missing, Waits: forName("Driver", m[1]), Next: does(agentOf(p),
			"has them prepared when the driver registers"),
		Advice: []string{"look whether a pod of the driver runs on " + p.Spec.NodeName + ": kubectl get pods -A --field-selector spec.nodeName=" +
			p.Spec.NodeName}}
}

func devicesNotPrepared(p *corev1.Pod, text string) *Finding {
	return &Finding{Says: "waits for its devices, which can't be made ready on " + p.Spec.NodeName + ": " + text, Owner: agentOf(p),
		State: BackingOff, Waits: on("Field", refTo(kinds.Pods, p), "spec.resourceClaims"), Next: does(agentOf(p), "tries again"),
		Advice: []string{"see who has them: kubectl describe resourceclaims -n " + p.Namespace, "read the log of the driver on that node"}}
}

// devicesHeld: no process of the pod runs, and its end is not told, because a driver does not take its devices back.
func devicesHeld(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	e := l.warning(p.UID, "FailedUnprepareDynamicResources")
	if e == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	if slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) {
		return nil
	}
	text := strings.TrimPrefix(e.Message, "Failed to unprepare dynamic resources: ")
	return &Finding{Says: "has ended, and its devices are not taken back: " + text, Owner: agentOf(p), State: BackingOff,
		Error: eventFailure(e), Waits: on("Field", refTo(kinds.Pods, p), "spec.resourceClaims"),
		Next: does(agentOf(p), "asks the driver again, and then tells that the pod has ended"),
		Advice: []string{"start the driver of the devices on " + p.Spec.NodeName + ", or read its log",
			"if it will not come back, delete the pod by force: kubectl delete pod " + p.Name + " -n " + p.Namespace + " --force"}}
}

// deviceRefused: the node could not give a pod what it has to have for itself.
func deviceRefused(_ *look, p *corev1.Pod) *Finding {
	advice := map[string]string{
		"UnexpectedAdmissionError": "look which devices " + p.Spec.NodeName + " has: kubectl describe node " + p.Spec.NodeName,
		"TopologyAffinityError":    "ask for less, or for nodes whose CPUs, memory and devices lie nearer to each other",
		"SMTAlignmentError":        "request whole cores: a multiple of the CPUs of one core",
	}[p.Status.Reason]
	if advice == "" {
		return nil
	}
	return &Finding{Says: "was refused by " + p.Spec.NodeName + ": " + strings.TrimPrefix(p.Status.Message, "Pod was rejected: "),
		Owner: person, State: Failed, Next: does(person, "deletes the pod, or makes it anew"),
		Advice: []string{advice, "nothing starts a pod without a controller again: let a Deployment or a Job make it"}}
}

// deviceNowhere: the pod asks for devices of a plugin that no node has, or whose plugins are gone.
func deviceNowhere(l *look, p *corev1.Pod, _ string) *Finding {
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			if q.IsZero() || !podspec.IsExtendedResource(name) || l.standsFor(name) {
				continue
			}
			if f := l.nowhere(name); f != nil {
				return f
			}
		}
	}
	return nil
}

// standsFor says that a device class stands for the resource: no node needs to have it.
func (l *look) standsFor(name corev1.ResourceName) bool {
	for _, c := range resource.List(l.Read, kinds.DeviceClasses, "") {
		if ptr.Deref(c.Spec.ExtendedResourceName, "") == string(name) {
			return true
		}
	}
	return false
}

// nowhere says that no node has any of the resource for pods; nil: some has.
func (l *look) nowhere(name corev1.ResourceName) *Finding {
	var had []string
	for _, n := range resource.List(l.Read, kinds.Nodes, "") {
		all, ok := n.Status.Capacity[name]
		if free := n.Status.Allocatable[name]; !free.IsZero() {
			return nil
		}
		if ok && !all.IsZero() {
			had = append(had, n.Name)
		}
	}
	f := &Finding{Says: "asks for " + string(name) + ", which no node has", State: Blocked, Waits: forName("Resource", string(name)),
		Next: does("scheduler", "tries again when a node has it"),
		Advice: []string{"install the device plugin that brings " + string(name) + ", or correct the name",
			"look what nodes have: kubectl describe nodes"}}
	if len(had) > 0 {
		slices.Sort(had)
		f.Says = "asks for " + string(name) + ", and the device plugin that brings it is gone from " + strings.Join(had[:min(len(had), 3)], ", ")
		f.Next = does("scheduler", "tries again when the plugin is back")
		f.Advice = []string{"look why the plugin's pod does not run on " + had[0] + ": kubectl get pods -A --field-selector spec.nodeName=" +
			had[0]}
	}
	return f
}
