package causes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// pods lists the remaining situations of a pod that has a node.
func pods() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "SandboxFails", Of: of, See: sandboxFails},
		{Name: "AgentRefuses", Of: of, See: agentRefuses},
		{Name: "InitRuns", Of: of, See: initRuns},
		{Name: "NotStarted", Of: of, See: notStarted},
		{Name: "NotReady", Of: of, See: notReady},
	}
}

// sandboxFails goes by the event: no field of a pod says that its sandbox could not be made.
func sandboxFails(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	e := l.Warning(p.UID, "FailedCreatePodSandBox")
	if p.Status.Phase != corev1.PodPending || e == nil {
		return nil
	}
	text := words.OneLine(strings.TrimPrefix(e.Message, "Failed to create pod sandbox: "))
	f := &converge.Finding{Says: "can't get its sandbox: " + text, Owner: converge.AgentOf(p), State: converge.BackingOff,
		Error: general.EventFailure(e),
		Next:  converge.Does(converge.AgentOf(p), "tries again"),
		Advice: []string{"look at the container runtime and the network plugins on " + p.Spec.NodeName +
			": kubectl get pods -A --field-selector spec.nodeName=" + p.Spec.NodeName}}
	if s, ok := words.Meaning(sandboxless, text); ok {
		f.Says, f.Advice = "can't get its sandbox: "+s.Words()+": "+text, []string{strings.ReplaceAll(s.Advice(), "{}", p.Spec.NodeName)}
		f.Below = servants(l.World, p.Spec.NodeName)
		if s.Mark() == "is configured" && p.Spec.RuntimeClassName != nil {
			f.Advice = append(f.Advice, retemplate(l, "or have it run by the node's own runtime, if it need not be kept apart so",
				`{"runtimeClassName":null}`))
		}
	}
	return f
}

// sandboxless words what runtimes and network plugins say, and what helps; the first that fits counts.
var sandboxless = []words.Saying{
	{"cgroupsPath", "the node agent and the runtime have different cgroup drivers",
		"have both on {} use systemd's: kubelet cgroupDriver: systemd, containerd SystemdCgroup = true; then start both anew"},
	{"network-attachment-definition", "a network that it asks for in its annotations is not defined",
		"make that NetworkAttachmentDefinition in the pod's namespace, or correct the annotation k8s.v1.cni.cncf.io/networks"},
	{"failed to assign an IP address", "its network has no free address", noAddress}, {"no IP addresses available",
		"its network has no free address", noAddress},
	{"ould not allocate IP in range", "the range of one of its networks is used up",
		"have a larger range, or take out what pods have that are gone: kubectl get ippools.whereabouts.cni.cncf.io," +
			"overlappingrangeipreservations.whereabouts.cni.cncf.io -A -o yaml"},
	{"per host block limit", "its network gives that node no more blocks of addresses",
		"let blocks go that nobody uses (calicoctl ipam check), or raise maxBlocksPerHost: " +
			"kubectl get ipamconfigs.crd.projectcalico.org -o yaml"},
	{"ree affine blocks", "its network has no block of addresses left for that node",
		"give the network a larger pool or smaller blocks, or take back those that nobody uses (calicoctl ipam check): " +
			"kubectl get ippools.crd.projectcalico.org -o yaml"},
	{"no available IPs", "its network has no free address", noAddress}, {"is configured",
		"the node's runtime has no such handler as its runtime class names",
		"set the handler up in the runtime of {} (containerd: runtimes.NAME), " +
			"or have the pod on nodes that have it: scheduling.nodeSelector of the RuntimeClass"},
	{"Unauthorized", "the network plugin's credentials are not accepted",
		"restart the network plugin's pod on {}, which writes new ones: kubectl get pods -A --field-selector spec.nodeName={}"},
	{"failed to find plugin", "the node lacks the program of its network plugin",
		"have what brings that plugin run on {}, a DaemonSet mostly, or install it there (/opt/cni/bin): " +
			"kubectl get pods -A --field-selector spec.nodeName={}"},
	{"calico/nodename", "the network plugin has not set the node up", pluginThere},
	{"subnet.env", "the network plugin has not set the node up", pluginThere},
	{"cni plugin not initialized", "the network plugin has not set the node up", pluginThere},
	{"expected cgroupsPath to be of format", "the node's agent makes cgroups by cgroupfs, and its runtime by systemd",
		"set node.cgroupDriver: systemd for {}, or SystemdCgroup = false in its runtime's configuration, and start it again"},
	{"IDMAP", "the node's kernel or file systems can't do user namespaces",
		"leave hostUsers: false out, or have it on nodes of Linux 6.3 or newer"},
	{".sock*no such file", "the agent of the network plugin does not run there", pluginThere},
	{".sock*refused", "the agent of the network plugin does not run there", pluginThere},
	{"no space left on device", "the node's disk is full", "free disk space on {}: images and logs that nobody needs"},
}

const pluginThere = "look at the network plugin's pod there: kubectl get pods -A --field-selector spec.nodeName={}"

const noAddress = "have fewer pods on {}, delete pods that ended, or give the network a larger range: " +
	"kubectl get pods -A --field-selector spec.nodeName={}"

// servants are the pods of DaemonSets in the network of a node that are not well: its network plugin is one of them.
func servants(w *converge.World, node string) (bad []converge.Ref) {
	for obj := range w.Read.ByField(kinds.Pods, "spec.nodeName", node) {
		p := resource.As[*corev1.Pod](obj)
		ref := metav1.GetControllerOfNoCopy(p)
		if ref != nil && ref.Kind == "DaemonSet" && p.Spec.HostNetwork && !w.Health(kinds.Pods, p).Converged() {
			bad = append(bad, converge.RefTo(kinds.Pods, p))
		}
	}
	return bad
}

// agentRefuses: the agent of a node in this process failed at the pod in its last look.
func agentRefuses(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	r, ok := l.Record("node", l.Kind, p)
	if !ok || r.Fails < 2 || p.Spec.NodeName == "" {
		return nil
	}
	return &converge.Finding{Says: "can't be run: " + general.LastLine(r.LastErr), Owner: converge.AgentOf(p), State: converge.BackingOff,
		Error:  converge.FailureOf(r),
		Next:   converge.At(r.Next, converge.AgentOf(p), "tries again"),
		Advice: []string{"look at the node agent's log on " + p.Spec.NodeName}}
}

// initRuns: an init container runs, and what comes after it waits until it ends.
func initRuns(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		if c.State.Running == nil || sidecar(p, c.Name) {
			continue
		}
		f := &converge.Finding{Says: fmt.Sprintf("waits for its init container %s, which has been running since %s", c.Name,
			c.State.Running.StartedAt.UTC().Format("15:04:05 MST")), Owner: converge.AgentOf(p), State: converge.Progressing,
			Waits: l.Field(fmt.Sprintf("status.initContainerStatuses[%s].state", c.Name)),
			Next: converge.Does(converge.AgentOf(p),
				"starts the next container when %s has ended with success", c.Name)}
		if l.Now.Sub(c.State.Running.StartedAt.Time) > general.SlowStart {
			f.State, f.Advice = converge.Waiting, []string{"see what it waits for: kubectl logs " + p.Name + " -c " + c.Name + " -n " +
				p.Namespace}
			f.Below = awaited(l, f, p, c.Name)
		}
		return f
	}
	return nil
}

// sidecar says that an init container is one that runs beside the others.
func sidecar(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && podspec.Sidecar(&c)
	})
}

// notStarted: the agent has the pod and tells nothing that stands in the way.
func notStarted(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return nil
	}
	f := &converge.Finding{Says: "was given to node " + p.Spec.NodeName + ", which has not started it", Owner: converge.AgentOf(p),
		State: converge.Progressing,
		Next:  converge.Does(converge.AgentOf(p), "starts the containers")}
	if c := neverChosen(l.World, p); c != nil {
		f.Says = "names its node " + p.Spec.NodeName + " itself, so that no scheduler chooses where the volume of claim " + c.Name +
			" is made; its class " + core.ClaimClass(c) + " waits for that (WaitForFirstConsumer)"
		f.State, f.Owner = converge.Blocked, converge.Person
		f.Waits = converge.On("Object", converge.RefTo(kinds.PersistentVolumeClaims, c), "status.phase")
		f.Next = converge.PersonDoes("chooses a node for the claim, or leaves that to the scheduler")
		f.Advice = []string{"have the volume made for that node: kubectl annotate pvc " + c.Name + " -n " + c.Namespace +
			" volume.kubernetes.io/selected-node=" + p.Spec.NodeName,
			"or make the pod anew without spec.nodeName, and with nodeSelector: {kubernetes.io/hostname: " + p.Spec.NodeName + "}"}
		return f
	}
	if e := l.Newest(p.UID); e != nil && e.Reason == "Pulling" {
		f.Says = "waits for an image: node " + p.Spec.NodeName + " has been pulling " + words.Between(e.Message, `"`, `"`) + " since " +
			converge.Told(e).UTC().Format("15:04:05 MST")
		f.Next = converge.Does(converge.AgentOf(p), "starts the containers when it is there")
		return f
	}
	if l.Now.Sub(l.Judged.Since) > general.SlowStart {
		f.State, f.Advice = converge.Waiting, []string{"look whether the node agent on " + p.Spec.NodeName + " runs, and at its log"}
	}
	return f
}

// neverChosen is a claim of a pod that has a node and came by none of the scheduler's: nobody chooses a node for the claim.
func neverChosen(w *converge.World, p *corev1.Pod) *corev1.PersistentVolumeClaim {
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(w.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c != nil && c.Status.Phase == corev1.ClaimPending && health.BindsLate(w, c) &&
			c.Annotations["volume.kubernetes.io/selected-node"] == "" {
			return c
		}
	}
	return nil
}

// notReady is the last of a running pod's situations: readiness gates, and what no probe explains.
func notReady(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
		return nil
	}
	f := &converge.Finding{Says: "runs and is not ready", Owner: converge.AgentOf(p), State: converge.Waiting,
		Next: converge.Does(converge.AgentOf(p), "says when it is ready")}
	if c := general.PodCondition(p, corev1.PodReady); c != nil && c.Message != "" {
		f.Says += ": " + c.Message
	}
	return f
}
