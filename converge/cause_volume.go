package converge

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// volumes are the ways in which a pod that has a node does not get its volumes.
func volumes() []Situation {
	of := []resource.Kind{kinds.Pods}
	return []Situation{
		{"MountNeedsObject", of, mount(mountNeedsObject)},
		{"VolumeUnsupported", of, mount(volumeUnsupported)},
		{"MountFails", of, mount(mountFails)},
	}
}

// mount limits a rule to pods whose volumes the agent could not set up, and gives it what the agent said.
func mount(see func(l *look, p *corev1.Pod, text string) *Finding) func(l *look) *Finding {
	return func(l *look) *Finding {
		p := l.obj.(*corev1.Pod)
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending {
			return nil
		}
		for i := range p.Status.ContainerStatuses {
			if r, _ := waitsFor(&p.Status.ContainerStatuses[i]); r != "ContainerCreating" && r != "PodInitializing" {
				return nil // it is past its volumes
			}
		}
		e := l.warning(p.UID, "FailedMount", "FailedAttachVolume", "FailedMapVolume")
		if e == nil {
			return nil
		}
		f := see(l, p, e.Message)
		if f != nil {
			f.Owner, f.Error = agentOf(p), eventFailure(e)
		}
		return f
	}
}

var lacking = regexp.MustCompile(`(?i)(configmap|secret|persistentvolumeclaim|persistentvolume|serviceaccount)s? "?([^" ]+)"? not found`)

func mountNeedsObject(l *look, p *corev1.Pod, text string) *Finding {
	m := lacking.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	k := map[string]resource.Kind{"configmap": kinds.ConfigMaps, "secret": kinds.Secrets, "persistentvolumeclaim": kinds.PersistentVolumeClaims,
		"persistentvolume": kinds.PersistentVolumes, "serviceaccount": kinds.ServiceAccounts}[strings.ToLower(m[1])]
	return &Finding{Says: "waits for " + strings.ToLower(m[1]) + "/" + m[2] + ", which it mounts and which does not exist", State: Blocked,
		Waits: on("Object", l.namespaced(k, m[2]), ""), Next: does(agentOf(p), "mounts it and starts the containers when it exists"),
		Advice: []string{"create " + strings.ToLower(m[1]) + "/" + m[2] + " in namespace " + p.Namespace + ", or correct the volume"}}
}

func volumeUnsupported(l *look, p *corev1.Pod, text string) *Finding {
	if !strings.Contains(text, "not supported") && !strings.Contains(text, "are supported yet") {
		return nil
	}
	return &Finding{Says: "has a volume of a type that the node can't mount: " + text, State: Blocked, Waits: on("Field", refTo(kinds.Pods, p), "spec.volumes"),
		Next: does(person, "uses another type of volume"), Advice: []string{"docs/differences.md lists the types of volumes that work"}}
}

func mountFails(l *look, p *corev1.Pod, text string) *Finding {
	return &Finding{Says: "can't mount its volumes: " + text, State: BackingOff, Next: does(agentOf(p), "tries again"),
		Advice: []string{"look at the volume's path or server, and at the node agent's log"}}
}
