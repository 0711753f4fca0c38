package causes

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// devices are the ways in which a node does not give a pod its devices, or does not get them back.
func devices() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "DeviceDriverMissing", Of: of, See: preparing(deviceDriverMissing)},
		{Name: "DevicesNotPrepared", Of: of, See: preparing(devicesNotPrepared)},
		{Name: "DevicesHeld", Of: of, See: devicesHeld},
		{Name: "DeviceRefused", Of: of, See: failedPod(deviceRefused)},
	}
}

// preparing limits a rule to pods that wait for devices on their node, and gives it what the agent said.
func preparing(see func(p *corev1.Pod, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		p := l.Obj.(*corev1.Pod)
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			return nil
		}
		e := l.Warning(p.UID, "FailedPrepareDynamicResources")
		if e == nil || slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.ContainerID != "" }) {
			return nil // it is past its devices
		}
		f := see(p, strings.TrimPrefix(e.Message, "Failed to prepare dynamic resources: "))
		if f != nil {
			f.Error = general.EventFailure(e)
		}
		return f
	}
}

var noDriver = pattern.New(`DRA driver (\S+) is not registered`)

// deviceDriverMissing is the agent's: the scheduler places by ResourceSlices, which outlive a driver that went away.
func deviceDriverMissing(p *corev1.Pod, text string) *converge.Finding {
	m := noDriver.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	return &converge.Finding{Says: "waits for its devices: their driver " + m[1] + " is not registered on " + p.Spec.NodeName,
		Owner: "the driver " + m[1], State: converge.Missing, Waits: converge.ForName("Driver", m[1]),
		Next: converge.Does(converge.AgentOf(p),
			"has them prepared when the driver registers"),
		Advice: []string{"look whether a pod of the driver runs on " + p.Spec.NodeName +
			": kubectl get pods -A --field-selector spec.nodeName=" +
			p.Spec.NodeName}}
}

func devicesNotPrepared(p *corev1.Pod, text string) *converge.Finding {
	f := &converge.Finding{Says: "waits for its devices, which can't be made ready on " + p.Spec.NodeName + ": " + text,
		Owner: converge.AgentOf(p),
		State: converge.BackingOff, Waits: converge.On("Field", converge.RefTo(kinds.Pods, p), "spec.resourceClaims"),
		Next:   converge.Does(converge.AgentOf(p), "tries again"),
		Advice: []string{"see who has them: kubectl describe resourceclaims -n " + p.Namespace, "read the log of the driver on that node"}}
	if strings.Contains(text, "could not find the requested resource") { // it is the API server that says so
		f.Says += "; its node agent asks for a version of that API which the server does not serve"
		f.Advice = []string{"have the node and the API server be of releases that go together, or serve the version that the agent asks for " +
			"(--runtime-config=resource.k8s.io/v1beta1=true): kubectl get nodes -o wide", "see what is served: kubectl api-versions"}
	}
	return f
}

// devicesHeld: no process of the pod runs, and its end is not told, because a driver does not take its devices back.
func devicesHeld(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	e := l.Warning(p.UID, "FailedUnprepareDynamicResources")
	if e == nil || core.Terminal(p) {
		return nil
	}
	if slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) {
		return nil
	}
	text := strings.TrimPrefix(e.Message, "Failed to unprepare dynamic resources: ")
	return &converge.Finding{Says: "has ended, and its devices are not taken back: " + text, Owner: converge.AgentOf(p),
		State: converge.BackingOff,
		Error: general.EventFailure(e), Waits: l.Field("spec.resourceClaims"),
		Next: converge.Does(converge.AgentOf(p), "asks the driver again, and then tells that the pod has ended"),
		Advice: []string{"start the driver of the devices on " + p.Spec.NodeName + ", or read its log",
			"if it will not come back, delete the pod by force: kubectl delete pod " + p.Name + " -n " + p.Namespace + " --force"}}
}

// deviceRefused: the node could not give a pod what it has to have for itself.
func deviceRefused(_ *converge.Look, p *corev1.Pod) *converge.Finding {
	advice := map[string]string{
		"UnexpectedAdmissionError": "look which devices " + p.Spec.NodeName + " has: kubectl describe node " + p.Spec.NodeName,
		"TopologyAffinityError":    "ask for less, or for nodes whose CPUs, memory and devices lie nearer to each other",
		"SMTAlignmentError":        "request whole cores: a multiple of the CPUs of one core",
	}[p.Status.Reason]
	if advice == "" {
		return nil
	}
	return &converge.Finding{Says: "was refused by " + p.Spec.NodeName + ": " + strings.TrimPrefix(p.Status.Message, "Pod was rejected: "),
		Owner: converge.Person, State: converge.Failed, Next: converge.PersonDoes("deletes the pod, or makes it anew"),
		Advice: []string{advice, "nothing starts a pod without a controller again: let a Deployment or a Job make it"}}
}

// deviceNowhere: the pod asks for devices of a plugin that no node has, or whose plugins are gone.
func deviceNowhere(l *converge.Look, p *corev1.Pod, _ string) *converge.Finding {
	for i := range p.Spec.Containers {
		for name, q := range p.Spec.Containers[i].Resources.Requests {
			if q.IsZero() || !podspec.IsExtendedResource(name) || standsFor(l, name) {
				continue
			}
			if f := nowhere(l, name); f != nil {
				return f
			}
		}
	}
	return nil
}

// standsFor says that a device class stands for the resource: no node needs to have it.
func standsFor(l *converge.Look, name corev1.ResourceName) bool {
	for _, c := range resource.List(l.Read, kinds.DeviceClasses, "") {
		if ptr.Deref(c.Spec.ExtendedResourceName, "") == string(name) {
			return true
		}
	}
	return false
}

// nowhere says that no node has any of the resource for pods; nil: some has.
func nowhere(l *converge.Look, name corev1.ResourceName) *converge.Finding {
	if !l.Sees(kinds.Nodes) {
		return nil
	}
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
	f := &converge.Finding{Says: "asks for " + string(name) + ", which no node has", State: converge.Blocked,
		Waits: converge.ForName("Resource", string(name)),
		Next:  converge.Does("scheduler", "tries again when a node has it"),
		Advice: []string{"install the device plugin that brings " + string(name) + ", or correct the name",
			"look what nodes have: kubectl describe nodes"}}
	if len(had) > 0 {
		slices.Sort(had)
		f.Says = "asks for " + string(name) + ", and the device plugin that brings it is gone from " +
			strings.Join(had[:min(len(had), 3)], ", ")
		f.Next = converge.Does("scheduler", "tries again when the plugin is back")
		f.Advice = []string{"look why the plugin's pod does not run on " + had[0] +
			": kubectl get pods -A --field-selector spec.nodeName=" +
			had[0]}
	}
	bringer(l, f, string(name))
	return f
}

// bringer tells of the DaemonSet that is to bring a vendor's devices, as nvidia.com/gpu, and runs nowhere or is not well.
func bringer(l *converge.Look, f *converge.Finding, name string) {
	vendor, _, _ := strings.Cut(name, ".")
	for _, d := range resource.List(l.Read, kinds.DaemonSets, "") {
		text := d.Name
		for i := range d.Spec.Template.Spec.Containers {
			text += " " + d.Spec.Template.Spec.Containers[i].Image
		}
		if !strings.Contains(text, vendor) || !strings.Contains(text, "device-plugin") {
			continue
		}
		short := "daemonset/" + d.Name + " in namespace " + d.Namespace
		if d.Status.DesiredNumberScheduled > 0 {
			if !l.Health(kinds.DaemonSets, d).Converged() {
				f.Says += "; " + short + " is to bring it"
				f.Below = []converge.Ref{converge.RefTo(kinds.DaemonSets, d)}
			}
			return
		}
		f.Says += "; " + short + " is to bring it, and runs nowhere"
		f.Advice = []string{"correct which nodes its pod template asks for: kubectl edit daemonset " + d.Name + " -n " + d.Namespace}
		for _, n := range resource.List(l.Read, kinds.Nodes, "") {
			if taint, advice := tolerating(l, converge.RefTo(kinds.DaemonSets, d), &d.Spec.Template.Spec, n.Name); taint != "" {
				f.Says += ", as it does not tolerate the taint " + taint + " of node " + n.Name
				f.Advice[0] = advice
				break
			}
		}
		return
	}
}
