package causes

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// dataSourceMissing: the claim is to begin as a copy of something that does not exist, or is not well.
func dataSourceMissing(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	kind, group, name, ns := "", "", "", c.Namespace
	if r := c.Spec.DataSourceRef; r != nil {
		kind, group, name, ns = r.Kind, ptr.Deref(r.APIGroup, ""), r.Name, cmp.Or(ptr.Deref(r.Namespace, ""), ns)
	} else if r := c.Spec.DataSource; r != nil {
		kind, group, name = r.Kind, ptr.Deref(r.APIGroup, ""), r.Name
	}
	if name == "" {
		return nil
	}
	k := general.KindNamed(l.World, group, kind)
	what := strings.ToLower(kind) + "/" + name
	f := &converge.Finding{Says: "is to begin as a copy of " + what + ", which does not exist", Owner: converge.Person,
		State:  converge.Blocked,
		Next:   converge.PersonDoes("creates %s, or makes the claim anew with another dataSource", what),
		Advice: []string{"see what it names: kubectl describe pvc " + c.Name + " -n " + c.Namespace}}
	if k == nil {
		return nil
	}
	r := converge.Ref{Kind: k, NS: ns, Name: name}
	f.Waits = converge.On("Object", r, "")
	obj := l.Read.Lookup(k, ns, name)
	switch {
	case obj == nil && l.Sees(k, ns):
		return f
	case obj == nil || l.Health(k, obj).Converged():
		return nil
	}
	f.Says, f.State, f.Owner = "is to begin as a copy of "+what+", which is not there yet", converge.Waiting, "the volume's provisioner"
	f.Next, f.Below = converge.Does("the volume's provisioner", "makes the volume when %s is ready", what), []converge.Ref{r}
	return f
}

// claimChanges: its volume is to get other attributes, as of IOPS, and does not.
func claimChanges(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	m := c.Status.ModifyVolumeStatus
	if m == nil || m.Status == "" || c.Status.Phase != corev1.ClaimBound {
		return nil
	}
	who, class := "the volume's resizer", m.TargetVolumeAttributesClassName
	f := &converge.Finding{Says: "is to get the attributes of the class " + class, Owner: who, State: converge.Waiting,
		Waits:  l.Field("status.modifyVolumeStatus.status"),
		Next:   converge.Does(who, "changes the volume"),
		Advice: []string{"see what it says: kubectl describe pvc " + c.Name + " -n " + c.Namespace}}
	if e := l.Warning(c.UID, "VolumeModifyFailed"); e != nil {
		f.State, f.Error, f.Says = converge.BackingOff, general.EventFailure(e), f.Says+", and can't: "+words.OneLine(e.Message)
	}
	for _, cond := range c.Status.Conditions {
		if f.Error == nil && cond.Message != "" && strings.HasPrefix(string(cond.Type), "ModifyVolume") ||
			strings.HasPrefix(string(cond.Type), "ModifyingVolume") {
			f.Error = general.TextOnly(cond.Message)
		}
	}
	switch m.Status {
	case corev1.PersistentVolumeClaimModifyVolumePending:
		if l.Sees(kinds.VolumeAttributesClasses, "") && resource.Get(l.Read, kinds.VolumeAttributesClasses, "", class) == nil {
			f.Says, f.State, f.Owner = "names the volume attributes class "+class+", which does not exist", converge.Blocked,
				converge.Person
			f.Next = converge.PersonDoes("creates volumeattributesclass/%s, or names another one", class)
			f.Advice = []string{"those that exist: kubectl get volumeattributesclass"}
		}
	case corev1.PersistentVolumeClaimModifyVolumeInfeasible:
		f.Says += ", which its driver refuses: it has " + cmp.Or(ptr.Deref(c.Status.CurrentVolumeAttributesClassName, ""), "none") + " now"
		f.State, f.Owner = converge.Blocked, converge.Person
		f.Next = converge.PersonDoes("names a class that the driver can do")
		if f.Error != nil && !strings.Contains(f.Says, f.Error.Message) {
			f.Says += "; it says: " + f.Error.Message
		}
	}
	return f
}
