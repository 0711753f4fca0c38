package causes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// volumes are the ways in which a pod that has a node does not get its volumes.
func volumes() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "DriverMissing", Of: of, See: mount(driverMissing)},
		{Name: "AttachedElsewhere", Of: of, See: mount(attachedElsewhere)},
		{Name: "NotAttached", Of: of, See: mount(notAttached)},
		{Name: "MountNeedsObject", Of: of, See: mount(mountNeedsObject)},
		{Name: "MountNeedsKey", Of: of, See: mount(mountNeedsKey)},
		{Name: "VolumeUnsupported", Of: of, See: mount(volumeUnsupported)},
		{Name: "DriverRefuses", Of: of, See: mount(driverRefuses)},
		{Name: "MountFails", Of: of, See: mount(mountFails)},
		{Name: "AttachFails", Of: []resource.Kind{kinds.VolumeAttachments}, See: attachFails},
	}
}

// mount limits a rule to pods whose volumes the agent could not set up, and gives it what the agent said.
func mount(see func(l *converge.Look, p *corev1.Pod, text string) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		p := l.Obj.(*corev1.Pod)
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			return nil
		}
		for i := range p.Status.ContainerStatuses {
			if r, _ := general.WaitsFor(&p.Status.ContainerStatuses[i]); r != "ContainerCreating" && r != "PodInitializing" {
				return nil // it is past its volumes
			}
		}
		e := l.Warning(p.UID, "FailedMount", "FailedAttachVolume", "FailedMapVolume")
		if e == nil {
			return unmounted(l, see, p)
		}
		if other := l.Warning(p.UID, "FailedAttachVolume"); other != nil &&
			strings.HasPrefix(e.Message, "Unable to attach or mount volumes") {
			e = other // says why; the agent only says that it waits
		}
		f := see(l, p, e.Message)
		if f != nil {
			f.Owner, f.Error = cmp.Or(f.Owner, converge.AgentOf(p)), general.EventFailure(e)
		}
		return f
	}
}

// unmounted tells, where the agent's events are gone or were never seen, of a volume that can't be mounted for what it takes is not there.
func unmounted(l *converge.Look, see func(l *converge.Look, p *corev1.Pod, text string) *converge.Finding,
	p *corev1.Pod) *converge.Finding {
	lacks := func(k resource.Kind, name string, optional *bool) bool {
		return name != "" && !ptr.Deref(optional, false) && l.Sees(k, p.Namespace) && l.Read.Lookup(k, p.Namespace, name) == nil
	}
	for _, v := range p.Spec.Volumes {
		text := ""
		switch {
		case v.ConfigMap != nil && lacks(kinds.ConfigMaps, v.ConfigMap.Name, v.ConfigMap.Optional):
			text = `configmap "` + v.ConfigMap.Name + `" not found`
		case v.Secret != nil && lacks(kinds.Secrets, v.Secret.SecretName, v.Secret.Optional):
			text = `secret "` + v.Secret.SecretName + `" not found`
		default:
			continue
		}
		if f := see(l, p, text); f != nil {
			f.Owner = cmp.Or(f.Owner, converge.AgentOf(p))
			return f
		}
	}
	return nil
}

var lacking = pattern.New(`(?i)(configmap|secret|persistentvolumeclaim|persistentvolume|serviceaccount|clustertrustbundle)s?` +
	`(?:\.[a-z.0-9]+)? "?([^" ]+)"? not found`)

func mountNeedsObject(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	m := lacking.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	k := map[string]resource.Kind{"configmap": kinds.ConfigMaps, "secret": kinds.Secrets,
		"persistentvolumeclaim": kinds.PersistentVolumeClaims,
		"persistentvolume":      kinds.PersistentVolumes, "serviceaccount": kinds.ServiceAccounts,
		"clustertrustbundle": kinds.ClusterTrustBundles}[strings.ToLower(m[1])]
	r := general.Namespaced(l, k, m[2])
	where := " in namespace " + p.Namespace
	if !k.Info().Namespaced {
		r.NS, where = "", ""
	}
	f := &converge.Finding{Says: "waits for " + strings.ToLower(m[1]) + "/" + m[2] + ", which it mounts and which does not exist",
		State: converge.Blocked,
		Waits: converge.On("Object", r, ""), Next: converge.Does(converge.AgentOf(p), "mounts it and starts the containers when it exists"),
		Advice: []string{"create " + strings.ToLower(m[1]) + "/" + m[2] + where + ", or correct the volume"}}
	if word := strings.ToLower(m[1]); word == "secret" || word == "configmap" {
		f.Advice[0] += makeData(p, word, m[2])
	}
	if k == resource.Kind(kinds.ServiceAccounts) {
		f.Says, f.Next = "waits for a token of serviceaccount/"+m[2]+", which does not exist any more",
			converge.Does(converge.AgentOf(p), "mounts the token and starts the containers when it exists")
		f.Advice = []string{"kubectl create serviceaccount " + m[2] + " -n " + p.Namespace}
	}
	return f
}

// notAttached: a volume has to be attached to the node by its driver, and is not.
func notAttached(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	for _, a := range resource.List(l.Read, kinds.VolumeAttachments, "") {
		v := ptr.Deref(a.Spec.Source.PersistentVolumeName, "")
		if a.Spec.NodeName != p.Spec.NodeName || a.Status.Attached || a.DeletionTimestamp != nil ||
			!slices.ContainsFunc(core.ClaimNames(p), func(name string) bool {
				c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
				return c != nil && v != "" && c.Spec.VolumeName == v
			}) {
			continue
		}
		who := "the driver " + a.Spec.Attacher
		f := &converge.Finding{Says: "waits for its volume " + v + ", which " + who + " is to attach to " + p.Spec.NodeName, Owner: who,
			State: converge.Waiting, Waits: converge.On("Field", converge.RefTo(kinds.VolumeAttachments, a), "status.attached"),
			Next: converge.Does(who, "attaches it"), Advice: []string{"read the log of " + who + ": of its csi-attacher"}}
		_, why, failed := strings.Cut(text, "AttachVolume.Attach failed for volume ")
		_, why, _ = strings.Cut(why, " : ")
		if e := a.Status.AttachError; e != nil {
			why, failed = e.Message, true
		}
		switch {
		case failed:
			f.Says, f.State, f.Next = "waits for its volume "+v+", which can't be attached to "+p.Spec.NodeName+": "+why,
				converge.BackingOff,
				converge.Does(who, "tries again")
		case l.Unwatched(kinds.VolumeAttachments.Info().GR()):
			f.Says, f.State, f.Next = f.Says+", and it is not connected to this cluster", converge.Missing,
				converge.Does(who, "attaches it when it runs")
			f.Advice = []string{"install or start the driver " + a.Spec.Attacher + ", its controller with the csi-attacher"}
		}
		return f
	}
	return nil
}

// attachedElsewhere: a volume that one node at a time can have is still attached to another one.
func attachedElsewhere(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "Multi-Attach error") && !strings.Contains(text,
		"Waiting for detach for volume") { // the words up to 1.36, and since
		return nil
	}
	f := &converge.Finding{Says: "waits for a volume that is still attached to another node", Owner: "attach-detach",
		State: converge.Blocked,
		Waits: converge.ForName("Volume", general.Quoted(text, "for volume")),
		Next:  converge.Does("attach-detach", "attaches it to %s when the other node has let go of it", p.Spec.NodeName),
		Advice: []string{
			"if its old node will not come back, delete that node, or taint it with node.kubernetes.io/out-of-service: " +
				"the volume is detached then"}}
	for _, a := range resource.List(l.Read, kinds.VolumeAttachments, "") {
		if e := a.Status.DetachError; e != nil && ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == f.Waits.Name {
			f.Says = "waits for its volume, which can't be detached from " + a.Spec.NodeName + ": " + words.OneLine(e.Message)
			f.Advice = append([]string{letGo(a)}, f.Advice...)
			return f
		} else if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") == f.Waits.Name && a.Spec.NodeName != p.Spec.NodeName &&
			l.Sees(kinds.Nodes) && resource.Get(l.Read, kinds.Nodes, "", a.Spec.NodeName) == nil {
			f.Says = "waits for its volume, which is attached to " + a.Spec.NodeName + " still; that node is there no more"
			f.Advice = []string{letGo(a)}
			return f
		}
	}
	for _, name := range core.ClaimNames(p) {
		c := resource.Get(l.Read, kinds.PersistentVolumeClaims, p.Namespace, name)
		if c == nil || f.Waits.Name != "" && c.Spec.VolumeName != f.Waits.Name {
			continue
		}
		for _, other := range health.Users(l.World, c) {
			if other.Name == p.Name || other.Spec.NodeName == "" || other.Spec.NodeName == p.Spec.NodeName {
				continue
			}
			r := converge.RefTo(kinds.Pods, other)
			f.Says, f.Waits = "waits for the volume of claim "+name+", which pod/"+other.Name+" has on node "+other.Spec.NodeName,
				converge.On("Object", r, "")
			if n := resource.Get(l.Read, kinds.Nodes, "", other.Spec.NodeName); n != nil && !general.NodeReady(n) {
				f.Advice = []string{"if that machine is off, say so, and the volume is detached: kubectl taint nodes " + n.Name + " " +
					corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"}
			} else if n != nil {
				f.Advice = []string{"the volume is for one node at a time: let the pod there go: kubectl delete pod " + other.Name + " -n " +
					other.Namespace}
			}
			if o := metav1.GetControllerOfNoCopy(other); o != nil && o.Kind == "ReplicaSet" {
				f.Advice = append([]string{recreating(l.World, other)}, f.Advice...)
			}
			if !l.Health(kinds.Pods, other).Converged() {
				f.Below = []converge.Ref{r}
			}
			return f
		}
	}
	return f
}

// recreating advises to have a deployment let its old pods go before it makes newer ones.
func recreating(w *converge.World, p *corev1.Pod) string {
	advice := "let the old pod go first: a Deployment with such a volume needs strategy: {type: Recreate}"
	if d := deploymentOf(w, p); d != nil {
		advice += ": kubectl patch deployment " + d.Name + " -n " + d.Namespace +
			` -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`
	}
	return advice
}

var keyless = pattern.New(`references non-existent (?:(config|secret) )?key: ?(\S+)`)

// mountNeedsKey: the object that is mounted exists, and lacks a key that the volume names.
func mountNeedsKey(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	m := keyless.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	f := &converge.Finding{Says: "mounts the key " + m[2] + " of something that does not have it", State: converge.Blocked,
		Waits:  l.Field("spec.volumes"),
		Next:   converge.Does(converge.AgentOf(p), "mounts it and starts the containers when the key is there"),
		Advice: []string{edited(l, "add the key "+m[2]+", or correct the volume's items")}}
	has := func(items []corev1.KeyToPath) bool {
		return slices.ContainsFunc(items, func(i corev1.KeyToPath) bool { return i.Key == m[2] })
	}
	name := func(k resource.Kind, object string) {
		r := general.Namespaced(l, k, object)
		o := converge.Named(r.Kind, r.NS, r.Name)
		f.Says, f.Waits = "mounts the key "+m[2]+" of "+o.Short()+", which does not have it", converge.On("Field", r, "data."+m[2])
	}
	for _, v := range p.Spec.Volumes {
		switch {
		case v.ConfigMap != nil && has(v.ConfigMap.Items):
			name(kinds.ConfigMaps, v.ConfigMap.Name)
		case v.Projected != nil:
			for _, from := range v.Projected.Sources {
				if from.Secret != nil && has(from.Secret.Items) {
					name(kinds.Secrets, from.Secret.Name)
				} else if from.ConfigMap != nil && has(from.ConfigMap.Items) {
					name(kinds.ConfigMaps, from.ConfigMap.Name)
				}
			}
		case v.Secret != nil && has(v.Secret.Items):
			name(kinds.Secrets, v.Secret.SecretName)
		}
	}
	return f
}

func volumeUnsupported(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	if !strings.Contains(text, "not supported") && !strings.Contains(text, "are supported yet") {
		return nil
	}
	return &converge.Finding{Says: "has a volume of a type that the node can't mount: " + text, State: converge.Blocked,
		Waits:  l.Field("spec.volumes"),
		Next:   converge.PersonDoes("uses another type of volume"),
		Advice: []string{"docs/differences.md lists the types of volumes that work"}}
}

func mountFails(l *converge.Look, p *corev1.Pod, text string) *converge.Finding {
	says, advice := whyNoMount(text)
	f := &converge.Finding{Says: "can't mount its volumes: " + says, State: converge.BackingOff,
		Next:   converge.Does(converge.AgentOf(p), "tries again"),
		Advice: []string{ofPod(p, advice)}}
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.HostPath != nil && strings.Contains(text, "type check failed: "+v.HostPath.Path+" is not a directory") {
			f.Advice = []string{retemplate(l, "have the directory made, if it may be empty", `{"volumes":[{"name":"`+v.Name+
				`","hostPath":{"type":"DirectoryOrCreate"}}]}`), "or " + f.Advice[0]}
		}
	}
	return f
}

// ofPod is the advice of a table with the names of a pod, and of its node.
func ofPod(p *corev1.Pod, advice string) string {
	return strings.NewReplacer("{}", p.Spec.NodeName, "{pod}", p.Name+" -n "+p.Namespace).Replace(advice)
}

// unmountable words what mount says, and what helps; the first that fits counts.
var unmountable = []words.Saying{
	{"container not found", "one of them asks for resources of a container that the pod does not have",
		"correct resourceFieldRef.containerName in that volume's downwardAPI"},
	{"timed out waiting for external-attacher", "the driver that is to attach one does not answer",
		"look at its csi-attacher, in the pod of the driver's controller: kubectl get pods -A"},
	{"failed to sync *cache", "its node has not got what it mounts from the API server yet",
		"it passes mostly; if not, look at the node agent's log on {}, and whether that node reaches the API server"},
	{"/sbin/mount.<type> helper program", "the node lacks the program that mounts this type",
		"install it on the node: nfs-common or nfs-utils for NFS, cifs-utils for CIFS"},
	{"no such host", "the name of the server is not known on the node",
		"correct the server's name; nodes do not ask the cluster's DNS: give its address"},
	{"Name or service not known", "the name of the server is not known on the node",
		"correct the server's name; nodes do not ask the cluster's DNS: give its address"},
	{"failed to resolve server", "the name of the server is not known on the node",
		"correct the server's name; nodes do not ask the cluster's DNS: give its address"},
	{"Connection timed out", "the server does not answer",
		"look whether the node reaches the server, and a firewall lets it (NFS: TCP 2049)"},
	{"Connection refused", "nobody listens at the server", "start the service at the server, or correct its address"},
	{"access denied by server", "the server does not let this node have it",
		"add the node's address to what the server exports to (NFS: /etc/exports)"},
	{"type check failed", "what lies at that path of the node is not of the type that is asked for",
		"correct hostPath.path or its type (DirectoryOrCreate makes a directory), or have it on nodes that have the like"},
	{"Stale file handle", "the server's export was made anew since it was mounted",
		"delete the pod, so that it is mounted anew: kubectl delete pod {pod}"},
	{"wrong fs type", "what is on the disk is not of the type that is asked for, or is damaged",
		"compare fsType with what is there (blkid on the node), and check it (fsck)"},
	{"timed out waiting for the condition", "they did not come in time, and the node does not say why",
		"look at the node agent's log, and whether a driver has to attach them: kubectl get volumeattachments"},
	{"context deadline exceeded", "they did not come in time, and the node does not say why",
		"look at the node agent's log, and whether a driver has to attach them: kubectl get volumeattachments"},
}

func whyNoMount(text string) (says, advice string) {
	line := words.OneLine(text)
	if _, out, ok := strings.Cut(text, "Output: "); ok {
		head, _, _ := strings.Cut(text, "\n")
		line = words.OneLine(head) + ": " + words.OneLine(out)
	}
	if s, ok := words.Meaning(unmountable, text); ok {
		return s.Words() + ": " + line, s.Advice()
	}
	return line, "look at the volume's path or server, and at the node agent's log"
}
