package causes

import (
	"cmp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// claims are the ways in which a claim gets no volume.
func claims() []converge.Situation {
	claim := func(see func(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding) func(l *converge.Look) *converge.Finding {
		return func(l *converge.Look) *converge.Finding {
			if l.Obj.GetDeletionTimestamp() != nil {
				return nil
			}
			return see(l, l.Obj.(*corev1.PersistentVolumeClaim))
		}
	}
	of := []resource.Kind{kinds.PersistentVolumeClaims}
	return []converge.Situation{
		{Name: "ClaimLost", Of: of, See: claim(claimLost)},
		{Name: "ClaimChanges", Of: of, See: claim(claimChanges)},
		{Name: "ClaimGrows", Of: of, See: claim(claimGrows)},
		{Name: "VolumeTaken", Of: of, See: claim(volumeTaken)},
		{Name: "VolumeMissing", Of: of, See: claim(volumeMissing)},
		{Name: "VolumeReleased", Of: of, See: claim(volumeReleased)},
		{Name: "VolumeReserved", Of: of, See: claim(volumeReserved)},
		{Name: "VolumeUnfit", Of: of, See: claim(namedUnfit)},
		{Name: "VolumeUnfit", Of: of, See: claim(volumeUnfit)},
		{Name: "VolumeNamed", Of: of, See: claim(volumeNamed)},
		{Name: "StorageClassMissing", Of: of, See: claim(classMissing)},
		{Name: "DataSourceMissing", Of: of, See: claim(dataSourceMissing)},
		{Name: "WaitForPod", Of: of, See: claim(waitForPod)},
		{Name: "ProvisionerMissing", Of: of, See: claim(provisionerMissing)},
		{Name: "Provisioning", Of: of, See: claim(provisioning)},
		{Name: "NoVolume", Of: of, See: claim(noVolume)},
		{Name: "ReclaimWaits", Of: []resource.Kind{kinds.PersistentVolumes}, See: reclaimWaits},
		{Name: "ReclaimFailed", Of: []resource.Kind{kinds.PersistentVolumes}, See: reclaimFailed},
	}
}

// claimLost is a claim whose bound volume was deleted. Nothing binds it again: the binder never takes another volume for data.
func claimLost(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if c.Status.Phase != corev1.ClaimLost {
		return nil
	}
	return &converge.Finding{Says: "has lost its volume " + c.Spec.VolumeName + ", and what was on it", State: converge.Failed,
		Owner: "volume-binder",
		Waits: converge.On("Object", converge.Ref{Kind: kinds.PersistentVolumes, NS: "", Name: c.Spec.VolumeName}, ""),
		Next:  converge.PersonDoes("restores the volume, or deletes the claim and makes it anew"),
		Advice: []string{"restore the volume; or, if what was on it is given up, make the claim anew: kubectl delete pvc " +
			converge.Called(l) + " --wait=false"}}
}

const lessRoom = "ask for less: the request may be lowered to more than what the volume has, until it has grown"

// claimGrows is a bound claim that asks for more than it has. Growth has two halves: the driver's resizer makes the volume larger, the
// agent the file system when a pod mounts it, and each leaves another trace: a condition, or an event of the resizer.
func claimGrows(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if c.Status.Phase != corev1.ClaimBound {
		return nil
	}
	size := l.Judged.Want[strings.LastIndex(l.Judged.Want, "=")+1:]
	f := &converge.Finding{Says: "is to grow to " + size + " and nobody makes it grow", Owner: "the volume's resizer",
		State: converge.Missing,
		Waits: l.Field("status.capacity.storage"), Next: converge.Does("the volume's resizer",
			"makes the volume grow when it runs"),
		Advice: []string{"volumes of types without a driver can't grow: make a larger one and copy"}}
	if v := volumeOfClaim(l, c.Namespace, c.Name); v == nil && !l.Sees(kinds.PersistentVolumes, "") {
		f.Advice = []string{"see what is said of it: kubectl describe pvc " + converge.Called(l)}
	} else if v != nil && v.Spec.CSI != nil {
		f.Advice = []string{"look whether the csi-resizer of " + v.Spec.CSI.Driver + " runs: kubectl get pods -A"}
		if grow := general.LetGrow(l, ptr.Deref(c.Spec.StorageClassName, "")); grow != "" {
			f.Says += ": storageclass/" + *c.Spec.StorageClassName + " lets no volume grow"
			f.State, f.Next, f.Advice = converge.Blocked, converge.PersonDoes("lets volumes of that class grow"), []string{grow}
		}
	}
	for _, cond := range c.Status.Conditions {
		if cond.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
			f.Says, f.State, f.Owner = "has grown; its file system grows when a pod uses it", converge.Waiting, "node agent"
			f.Next, f.Advice = converge.Does("node agent", "makes the file system grow when a pod mounts it"), nil
			f.NoCommand = "nothing is to be done: a pod that uses it brings it about"
			if users := endedUsers(l, c); len(users) > 0 && l.Now.Sub(cond.LastTransitionTime.Time) > general.SlowStart {
				f.Says = "has grown, and its file system has not while pod/" + users[0].Name + " has it"
				f.NoCommand, f.Advice = "", []string{"if that goes on, start the pod anew: kubectl delete pod " + users[0].Name + " -n " + c.Namespace}
			}
			return f
		}
	}
	for _, cond := range c.Status.Conditions {
		if strings.HasSuffix(string(cond.Type), "ResizeError") && cond.Status == corev1.ConditionTrue && cond.Message != "" {
			f.Says, f.State, f.Error = "can't grow to "+size+": "+cond.Message, converge.BackingOff, general.TextOnly(cond.Message)
			f.Next, f.Advice = converge.Does(f.Owner, "tries again"), []string{lessRoom + lowered(c, cond.Message)}
		}
	}
	if e := l.Warning(c.UID, "VolumeResizeFailed", "FileSystemResizeFailed"); e != nil {
		why := words.Between(e.Message+"\x00", "failed: ", "\x00")
		f.Says, f.State, f.Error = "can't grow to "+size+": "+cmp.Or(why, e.Message), converge.BackingOff, general.EventFailure(e)
		f.Next = converge.Does(f.Owner, "tries again")
		f.Advice = []string{"give the storage behind it more room",
			"or " + lessRoom + lowered(c, e.Message)}
	}
	return f
}

// volumeTaken is a claim that names a volume which is not its own. The same name with another UID is the usual one: a retained volume
// remembers the claim that was deleted, so that nobody else gets its data by name.
func volumeTaken(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if c.Spec.VolumeName == "" {
		return nil
	}
	v := resource.Get(l.Read, kinds.PersistentVolumes, "", c.Spec.VolumeName)
	if v == nil || v.Spec.ClaimRef == nil {
		return nil
	}
	if r := v.Spec.ClaimRef; r.Namespace == c.Namespace && r.Name == c.Name {
		if r.UID == "" || r.UID == c.UID {
			return nil
		}
		return &converge.Finding{Says: "wants the volume " + v.Name + ", which is kept for a claim of the same name that was deleted",
			State:  converge.Blocked,
			Waits:  converge.On("Object", converge.RefTo(kinds.PersistentVolumes, v), "spec.claimRef"),
			Next:   converge.Does("volume-binder", "binds it when the volume is free"),
			Advice: []string{"if what is on it may be used: kubectl patch pv " + v.Name + " -p '{\"spec\":{\"claimRef\":null}}'"}}
	}
	other := v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
	return &converge.Finding{Says: "wants the volume " + v.Name + ", which belongs to the claim " + other, State: converge.Blocked,
		Waits:  converge.On("Object", converge.RefTo(kinds.PersistentVolumes, v), "spec.claimRef"),
		Next:   converge.Does("volume-binder", "binds it when the volume is free"),
		Advice: []string{"name another volume, or free this one from " + other}}
}

// volumeMissing is said only by who sees volumes: they have no namespace, and few may read them.
func volumeMissing(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if c.Spec.VolumeName == "" || resource.Get(l.Read, kinds.PersistentVolumes, "", c.Spec.VolumeName) != nil ||
		!l.Sees(kinds.PersistentVolumes, "") {
		return nil
	}
	r := converge.Ref{Kind: kinds.PersistentVolumes, NS: "", Name: c.Spec.VolumeName}
	return &converge.Finding{Says: "wants the volume " + r.Name + ", which does not exist", State: converge.Blocked,
		Waits: converge.On("Object", r, ""),
		Next:  converge.Does("volume-binder", "binds it when the volume exists"), Advice: []string{"create persistentvolume/" + r.Name}}
}

// byHandOnly are the volumes of the claim's class, if nobody makes any for it.
func byHandOnly(l *converge.Look, c *corev1.PersistentVolumeClaim) (list []*corev1.PersistentVolume) {
	if class := health.ClassOf(l.World, c); class != nil && class.Provisioner != "kubernetes.io/no-provisioner" || c.Spec.VolumeName != "" {
		return nil
	}
	for _, v := range resource.List(l.Read, kinds.PersistentVolumes, "") {
		if v.Spec.StorageClassName == ptr.Deref(c.Spec.StorageClassName, "") && v.DeletionTimestamp == nil {
			list = append(list, v)
		}
	}
	return list
}

// unfitting says why a volume does not do for a claim; "" if it does, as far as one can see. One that the claim names may have any labels.
func unfitting(v *corev1.PersistentVolume, c *corev1.PersistentVolumeClaim, chosen bool) string {
	want, have := c.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	if have.Cmp(want) < 0 {
		return "has " + have.String() + ", and " + want.String() + " are asked for"
	}
	for _, m := range c.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, m) {
			return "does not offer " + string(m)
		}
	}
	if a, b := ptr.Deref(v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem),
		ptr.Deref(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem); a != b {
		return "is of mode " + string(a) + ", not " + string(b)
	}
	if sel, err := metav1.LabelSelectorAsSelector(c.Spec.Selector); chosen && c.Spec.Selector != nil && err == nil &&
		!sel.Matches(labels.Set(v.Labels)) {
		return "does not have the labels that spec.selector asks for"
	}
	return ""
}

// volumeReleased: a volume would do, and is kept for a claim that is gone, with what is on it.
func volumeReleased(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	for _, v := range byHandOnly(l, c) {
		if v.Status.Phase != corev1.VolumeReleased || v.Spec.ClaimRef == nil || unfitting(v, c, true) != "" {
			continue
		}
		return &converge.Finding{Says: "finds no free volume: " + v.Name + " would do, and is kept for the claim " +
			v.Spec.ClaimRef.Namespace + "/" +
			v.Spec.ClaimRef.Name + ", which was deleted", State: converge.Blocked,
			Waits: converge.On("Object", converge.RefTo(kinds.PersistentVolumes, v), "spec.claimRef"),
			Next:  converge.Does("volume-binder", "binds it when the volume is free"),
			Advice: []string{"if what is on it may be used, or is gone: kubectl patch pv " + v.Name +
				" -p '{\"spec\":{\"claimRef\":null}}'",
				"or create another volume"}}
	}
	return nil
}

// volumeReserved: a volume would do, and names another claim, which does not exist: a name that was mistyped, most often.
func volumeReserved(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	for _, v := range byHandOnly(l, c) {
		r := v.Spec.ClaimRef
		if r == nil || r.UID != "" || v.Status.Phase == corev1.VolumeReleased || unfitting(v,
			c, true) != "" || r.Name == c.Name || r.Namespace != c.Namespace || strict.Meant(r.Name, []string{c.Name}) == "" ||
			resource.Get(l.Read, kinds.PersistentVolumeClaims, r.Namespace, r.Name) != nil || !l.Sees(kinds.PersistentVolumeClaims,
			r.Namespace) {
			continue
		}
		return &converge.Finding{Says: "finds no free volume: " + v.Name + " would do, and is reserved for the claim " + r.Namespace +
			"/" + r.Name +
			", which does not exist", State: converge.Blocked,
			Waits: converge.On("Object", converge.RefTo(kinds.PersistentVolumes, v), "spec.claimRef"),
			Next:  converge.Does("volume-binder", "binds it when the volume is free, or reserved for this claim"),
			Advice: []string{"if this claim is meant: kubectl patch pv " + v.Name + ` -p '{"spec":{"claimRef":{"namespace":"` +
				c.Namespace +
				`","name":"` + c.Name + `"}}}'`}}
	}
	return nil
}

// namedUnfit: the claim names its volume, which is free and does not do: what the binder looks at then is not all that it looks at when it
// chooses.
func namedUnfit(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	v := resource.Get(l.Read, kinds.PersistentVolumes, "", c.Spec.VolumeName)
	if v == nil {
		return nil
	}
	says, advice := unfitting(v, c, false), "make the claim anew so that it asks for what volume "+v.Name+" offers, or name another one: "+
		"kubectl get pv"
	have, want := v.Spec.StorageClassName, core.ClaimClass(c)
	switch {
	case v.DeletionTimestamp != nil:
		says, advice = "is being deleted", "name another volume: kubectl get pv"
	case have != want:
		says = "is of " + ofClass(have) + ", and the claim of " + ofClass(want)
		advice = "if they belong together: kubectl patch pv " + v.Name + ` -p '{"spec":{"storageClassName":"` + want + `"}}'`
	}
	if says == "" {
		return nil
	}
	return &converge.Finding{Says: "wants the volume " + v.Name + ", which " + says, State: converge.Blocked,
		Waits:  converge.On("Object", converge.RefTo(kinds.PersistentVolumes, v), "spec"),
		Next:   converge.Does("volume-binder", "binds it when the volume fits"),
		Advice: []string{advice}}
}

func ofClass(name string) string {
	if name == "" {
		return "no storage class"
	}
	return "the storage class " + name
}

// volumeNamed is a claim that names its volume, and nothing is seen to stand in the way: no class, and no pod, matters to it.
func volumeNamed(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if c.Spec.VolumeName == "" {
		return nil
	}
	f := &converge.Finding{Says: "is to be bound to the volume " + c.Spec.VolumeName + ", which it names", State: converge.Waiting,
		Waits: converge.On("Object", converge.Ref{Kind: kinds.PersistentVolumes, Name: c.Spec.VolumeName}, "spec.claimRef"),
		Next:  converge.Does("volume-binder", "binds them")}
	if !l.Sees(kinds.PersistentVolumes, "") {
		f.Says += "; how that volume is can't be seen"
		f.Advice = []string{"see what is said of the claim: kubectl describe pvc " + converge.Called(l)}
	}
	return f
}

// volumeUnfit: there are free volumes of the claim's class, and none does.
func volumeUnfit(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	var why []string
	for _, v := range byHandOnly(l, c) {
		if v.Status.Phase != corev1.VolumeAvailable {
			continue
		}
		if text := unfitting(v, c, true); text != "" {
			why = append(why, v.Name+" "+text)
		}
	}
	if len(why) == 0 {
		return nil
	}
	slices.Sort(why)
	return &converge.Finding{Says: "finds no volume that does: " + strings.Join(why[:min(len(why), 3)], "; "), State: converge.Blocked,
		Waits: converge.ForName("Object", "a persistent volume that does"),
		Next:  converge.Does("volume-binder", "binds it when a volume fits"),
		Advice: append(asOffered(l, c, byHandOnly(l, c)), "make the claim anew so that it asks for what a volume offers",
			"or create a persistent volume that does")}
}

func classMissing(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	name := ptr.Deref(c.Spec.StorageClassName, "")
	if name == "" || health.ClassOf(l.World, c) != nil || !l.Sees(kinds.StorageClasses, "") {
		return nil
	}
	r := converge.Ref{Kind: kinds.StorageClasses, NS: "", Name: name}
	f := &converge.Finding{Says: "names the storage class " + name + ", which does not exist, and no volume of that class fits it",
		State:  converge.Blocked,
		Waits:  converge.On("Object", r, ""),
		Next:   converge.Does("volume-binder", "looks again when the class or a volume of it exists"),
		Advice: []string{"create " + name + ", or make the claim anew with a class that exists: kubectl get storageclass"}}
	if made := claimFrom(l, c); made != "" {
		f.Advice = []string{made, "create " + name + ", or name a class that exists: kubectl get storageclass"}
	}
	return f
}

// setOf is the StatefulSet from one of whose templates a claim is made; nil: none is seen.
func setOf(w *converge.World, c *corev1.PersistentVolumeClaim) *appsv1.StatefulSet {
	for _, s := range resource.List(w.Read, kinds.StatefulSets, c.Namespace) {
		for i := range s.Spec.VolumeClaimTemplates {
			if strings.HasPrefix(c.Name, s.Spec.VolumeClaimTemplates[i].Name+"-"+s.Name+"-") {
				return s
			}
		}
	}
	return nil
}

func waitForPod(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	if !health.BindsLate(l.World, c) || c.Annotations["volume.kubernetes.io/selected-node"] != "" {
		return nil
	}
	class := health.ClassOf(l.World, c)
	byHand := class != nil && class.Provisioner == "kubernetes.io/no-provisioner"
	if !byHand && len(health.Users(l.World, c)) == 0 {
		return nil
	}
	if byHand {
		return &converge.Finding{Says: "waits for a volume of class " + class.Name +
			" on a node where its pod can run; nobody provisions such volumes",
			State: converge.Blocked,
			Waits: converge.On("Object", converge.RefTo(kinds.StorageClasses, class), ""), Next: converge.Does("scheduler",
				"binds it when a volume fits"),
			Advice: []string{"create a persistent volume of class " + class.Name + " that is large enough, on a node that suits the pod"}}
	}
	return &converge.Finding{Says: "waits for its pod to be scheduled: its class " + core.ClaimClass(c) + " binds then", Owner: "scheduler",
		State: converge.Waiting,
		Next:  converge.Does("scheduler", "chooses a node for the pod and with it a volume"), Below: converge.Refs(kinds.Pods,
			health.Users(l.World, c))}
}

func provisionerMissing(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	class := health.ClassOf(l.World, c)
	if class == nil || class.Provisioner == "kubernetes.io/no-provisioner" || servedHere(l, class.Provisioner) ||
		!l.Unwatched(kinds.PersistentVolumeClaims.Info().GR()) {
		return nil
	}
	who := "the provisioner " + class.Provisioner
	return &converge.Finding{Says: "waits for " + who + ", which is not connected to this cluster", Owner: who, State: converge.Missing,
		Waits:  converge.ForName("Controller", class.Provisioner),
		Next:   converge.Does(who, "makes a volume when it runs"),
		Advice: []string{"install or start " + class.Provisioner, "or create a persistent volume of class " + class.Name + " by hand"}}
}

func provisioning(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	class := health.ClassOf(l.World, c)
	if class == nil || class.Provisioner == "kubernetes.io/no-provisioner" {
		return nil
	}
	name := cmp.Or(c.Annotations["volume.kubernetes.io/storage-provisioner"],
		class.Provisioner) // the driver that stands in for an old name
	who := "the provisioner " + name
	if r := c.Spec.DataSourceRef; r != nil && ptr.Deref(r.APIGroup, "") != "" && ptr.Deref(r.APIGroup, "") != "snapshot.storage.k8s.io" {
		who = "the populator of " + r.Kind + "." + *r.APIGroup // drivers leave such claims alone
	}
	f := &converge.Finding{Says: "waits for " + who + " to make its volume", Owner: who, State: converge.Waiting,
		Waits: converge.ForName("Controller", class.Provisioner), Next: converge.Does(who, "makes the volume")}
	if e := l.Warning(c.UID, "ProvisioningFailed"); e != nil &&
		e.Source.Component != "persistentvolume-controller" { // ours speaks of the class alone
		f.State, f.Error, f.Says = converge.BackingOff, general.EventFailure(e), "can't get a volume: "+words.OneLine(e.Message)
		f.Advice = []string{"read the log of " + who + ", and what it says here: kubectl describe pvc " + converge.Called(l)}
		if low := strings.ToLower(e.Message); strings.Contains(low, "multi_node") || strings.Contains(low, "access mode") {
			f.Advice = []string{"make the claim anew with an access mode that " + class.Provisioner +
				" has (mostly ReadWriteOnce), or with another class: " +
				"kubectl get storageclass"}
			f.Advice = append(lessShared(c), f.Advice...)
		}
		if _, registered, known := topologies(l, name); known && !registered && strings.Contains(e.Message, "topology") {
			f.Says += "; the driver has registered on no node"
			f.Advice = []string{nodeless}
			driverDown(l, f, name, kinds.DaemonSets)
		}
		return f
	}
	if driverDown(l, f, name, kinds.Deployments, kinds.StatefulSets); len(f.Below) > 0 || f.State == converge.Missing {
		return f
	}
	if !servedHere(l, name) {
		l.RunsAbroad(f, name)
		f.Advice = []string{"see whether it has said anything of the claim: kubectl describe pvc " + converge.Called(l)}
	}
	if strings.Contains(name, "csi") && l.Sees(kinds.CSIDrivers, "") && resource.Get(l.Read, kinds.CSIDrivers, "", name) == nil {
		f.Says, f.State = "waits for its volume from "+who+", which is not installed: there is no csidriver "+name, converge.Missing
		f.Advice = []string{"install the driver " + name + "; those that are there: kubectl get csidrivers"}
	}
	return f
}

func noVolume(l *converge.Look, c *corev1.PersistentVolumeClaim) *converge.Finding {
	q := c.Spec.Resources.Requests[corev1.ResourceStorage]
	f := &converge.Finding{Says: "has no storage class, and no free volume fits it", State: converge.Blocked,
		Waits: converge.ForName("Object", "a persistent volume of at least "+q.String()),
		Next:  converge.Does("volume-binder", "binds it when a volume fits"),
		Advice: []string{"create a persistent volume of at least " + q.String() + " with the claim's access modes",
			"or make the claim anew with a storage class"}}
	defer func() {
		if l.Sees(kinds.PersistentVolumes) {
			f.Advice = append(asOffered(l, c, resource.List(l.Read, kinds.PersistentVolumes, "")), f.Advice...)
		}
	}()
	if name := ptr.Deref(c.Spec.StorageClassName, ""); !l.Sees(kinds.PersistentVolumes) {
		volumesUnseen(l, f, c, "which volumes there are")
	} else if name != "" && !l.Sees(kinds.StorageClasses) {
		volumesUnseen(l, f, c, "whether class "+name+" makes any")
	} else if name != "" {
		f.Says = "finds no free volume of class " + name + " that fits, and the class makes none"
	} else if c.Spec.StorageClassName == nil {
		classes := resource.List(l.Read, kinds.StorageClasses, "")
		if len(classes) == 1 {
			f.Advice = []string{"have the one class that there is be the default: kubectl patch storageclass " + classes[0].Name +
				` -p '{"metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}}'`, "or " + f.Advice[0], f.Advice[1]}
			return f
		}
		if len(classes) > 0 && len(classes) <= 3 {
			f.Advice = defaulting(classes)
			return f
		}
		f.Advice = append(f.Advice, "or, if one of the classes is to be the default, give it the annotation "+
			"storageclass.kubernetes.io/is-default-class=true: kubectl get storageclass")
	}
	return f
}

// volumesUnseen explains a claim to a reader who may not see what it depends on, as nobody may who has rights in a namespace alone, by the
// last event of it.
func volumesUnseen(l *converge.Look, f *converge.Finding, c *corev1.PersistentVolumeClaim, what string) {
	f.Says, f.State = "waits for a volume; "+what+" can't be seen", converge.Waiting
	f.Advice = []string{"see all that is said of the claim: kubectl describe pvc " + converge.Called(l)}
	if e := l.Newest(c.UID); e != nil {
		f.Says += "; last told of it, " + words.Ago(l.Now.Sub(converge.Told(e))) + " ago: " + words.OneLine(e.Message)
		f.Error, f.Words = general.EventFailure(e), e.Reason
	}
}

func reclaimFailed(l *converge.Look) *converge.Finding {
	v := l.Obj.(*corev1.PersistentVolume)
	if e := l.Warning(v.UID, "VolumeFailedDelete"); e != nil && v.Status.Phase == corev1.VolumeReleased {
		f := &converge.Finding{Says: "can't be removed: " + e.Message, State: converge.BackingOff, Error: general.EventFailure(e),
			Owner: "the provisioner", Next: converge.Does("the provisioner", "tries again"),
			Advice: []string{"see all that it says: kubectl describe pv " + v.Name}}
		return f
	}
	if v.Status.Phase != corev1.VolumeFailed {
		return nil
	}
	return &converge.Finding{Says: "could not be reclaimed: " + cmp.Or(v.Status.Message, v.Status.Reason), State: converge.Failed,
		Owner: converge.Person,
		Error: general.TextOnly(v.Status.Message), Next: converge.PersonDoes("cleans the volume up and deletes it")}
}
