package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// told waits until people were told of an object, in these words.
func (c *cluster) told(object, reason, text string) {
	c.t.Helper()
	c.until("told of "+object+": "+reason+" "+text, func(r resource.Reader) bool {
		for _, e := range resource.List(r, kinds.Events, "") {
			if e.InvolvedObject.Name == object && e.Reason == reason && strings.Contains(e.Message, text) {
				return true
			}
		}
		return false
	})
}

func TestNodesAreTold(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		n := resource.List(c.Read(), kinds.Nodes, "")[0].Name
		c.told(n, "RegisteredNode", "Node "+n+" event: Registered Node "+n+" in Controller")
		time.Sleep(time.Second) // events are called by their time
		if err := c.Delete(c.t.Context(), kinds.Nodes, "", n, nil); err != nil {
			c.t.Fatal(err)
		}
		c.told(n, "RemovingNode", "Node "+n+" event: Removing Node "+n+" from Controller")
	})
}

// An object in no namespace whose owner would be in one stays, and is told of; one whose owner is in another goes.
func TestStrayOwners(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		o := make1(c, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: meta("owner")})
		owned := metav1.ObjectMeta{Name: "stray", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, kinds.ConfigMaps.GVK)}}
		make1(c, kinds.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: owned})
		c.told("stray", "OwnerRefInvalidNamespace", `name: owner, uid: `+string(o.UID)+`] does not exist in namespace ""`)
		owned.Namespace = "kube-system"
		make1(c, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: owned})
		c.told("stray", "OwnerRefInvalidNamespace", `does not exist in namespace "kube-system"`)
		c.until("it is gone", func(r resource.Reader) bool { return resource.Get(r, kinds.ConfigMaps, "kube-system", "stray") == nil })
		time.Sleep(time.Minute)
		if resource.Get(c.Read(), kinds.ClusterRoles, "", "stray") == nil {
			c.t.Error("the role is gone, and nobody knows its owner")
		}
	})
}

// A claim that waits for its first consumer takes no volume by itself, and says what it waits for.
func TestClaimsThatWait(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		late, size := storagev1.VolumeBindingWaitForFirstConsumer, corev1.ResourceList{"storage": apiresource.MustParse("1Gi")}
		make1(c, kinds.StorageClasses, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late, AllowVolumeExpansion: new(true)})
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "late", AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}})
		class := "late"
		claim := func(name, volume string) {
			make1(c, kinds.PersistentVolumeClaims, &corev1.PersistentVolumeClaim{ObjectMeta: meta(name), Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: volume, StorageClassName: &class, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}}})
		}
		claim("p", "")
		c.told("p", "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
		time.Sleep(time.Second) // events are called by their time
		make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta("user"),
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, SchedulerName: "none",
				Volumes: []corev1.Volume{{Name: "v",
					VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p"}}}}}})
		edit(c, kinds.Pods, "default", "user", "status", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
		})
		c.told("p", "WaitForPodScheduled", "waiting for pod user to be scheduled")
		if p := resource.Get(c.Read(), kinds.PersistentVolumeClaims, "default", "p"); p.Spec.VolumeName != "" {
			c.t.Error("it took a volume that nobody chose for it")
		}
		class = "other"
		claim("q", "v")
		c.told("q", "VolumeMismatch", `Cannot bind to requested volume "v": storageClassName does not match`)
		block, class := corev1.PersistentVolumeBlock, "late"
		raw := make1(c, kinds.PersistentVolumeClaims, claimOf("raw", func(p *corev1.PersistentVolumeClaim) {
			p.Spec.VolumeMode, p.Spec.StorageClassName = &block, &class
		}))
		make1(c, kinds.PersistentVolumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "files"},
			Spec: corev1.PersistentVolumeSpec{AccessModes: raw.Spec.AccessModes, Capacity: raw.Spec.Resources.Requests, StorageClassName: class,
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "raw", UID: raw.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}})
		c.told("files", "VolumeMismatch", `Cannot bind PersistentVolume to requested PersistentVolumeClaim "raw" due to incompatible volumeMode.`)
		c.told("raw", "VolumeMismatch", `Cannot bind PersistentVolume "files" to requested PersistentVolumeClaim due to incompatible volumeMode.`)
		class = "late"
		claim("r", "v")
		c.until("the volume that it asks for is its own", func(r resource.Reader) bool {
			return resource.Get(r, kinds.PersistentVolumeClaims, "default", "r").Status.Phase == corev1.ClaimBound
		})
		edit(c, kinds.PersistentVolumeClaims, "default", "r", "", func(p *corev1.PersistentVolumeClaim) {
			p.Spec.Resources.Requests = corev1.ResourceList{"storage": apiresource.MustParse("2Gi")}
		})
		c.told("r", "ExternalExpanding", "waiting for an external controller to expand this PVC")
		for _, e := range resource.List(c.Read(), kinds.Events, "default") {
			if e.Reason == "ExternalExpanding" && e.Type != corev1.EventTypeNormal {
				c.t.Errorf("that it waits for a driver is %s", e.Type)
			}
		}
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", "r", nil); err != nil {
			c.t.Fatal(err)
		}
		c.told("v", "VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /x")
		c.until("nobody can delete it", func(r resource.Reader) bool {
			v := resource.Get(r, kinds.PersistentVolumes, "", "v")
			return v.Status.Phase == corev1.VolumeFailed && v.Status.Message != ""
		})
	})
}

// A budget counts the pods that somebody controls, and tells of the others.
func TestBudgetOfStrayPods(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Deployments, deployment("web", 2))
		stray := &corev1.Pod{ObjectMeta: meta("stray"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		stray.Labels = map[string]string{"web": "no", "all": "yes"}
		make1(c, kinds.Pods, stray)
		one := intstr.FromInt32(1)
		make1(c, kinds.PodDisruptionBudgets, &policyv1.PodDisruptionBudget{ObjectMeta: meta("b"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"all": "yes"}}}})
		c.told("b", "UnmanagedPods", "to be unmanaged. As a result, the status of the PDB cannot be calculated correctly")
		c.until("nobody who controls pods expects any", func(r resource.Reader) bool {
			b := resource.Get(r, kinds.PodDisruptionBudgets, "default", "b")
			return len(b.Status.Conditions) == 1 && b.Status.Conditions[0].Reason == policyv1.InsufficientPodsReason && b.Status.ExpectedPods == 0
		})
	})
}

// A job that is suspended has not started until it goes on, as a kube-controller-manager 1.36.3 has it.
func TestSuspendedJobHasNoStart(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Jobs, &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"sim.kloop.dev/keep": ""}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}})
		job := func(r resource.Reader) *batchv1.Job { return resource.Get(r, kinds.Jobs, "default", "j") }
		c.until("it started", func(r resource.Reader) bool { return job(r).Status.StartTime != nil && job(r).Status.Active == 1 })
		began := job(c.Read()).Status.StartTime
		time.Sleep(time.Minute)
		edit(c, kinds.Jobs, "default", "j", "", func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
		suspended := func(is corev1.ConditionStatus) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				return slices.ContainsFunc(job(r).Status.Conditions,
					func(x batchv1.JobCondition) bool { return x.Type == batchv1.JobSuspended && x.Status == is })
			}
		}
		c.until("it is suspended", suspended(corev1.ConditionTrue))
		if now := job(c.Read()).Status.StartTime; now != nil {
			c.t.Errorf("it started %v, and now %v", began, now)
		}
		edit(c, kinds.Jobs, "default", "j", "", func(j *batchv1.Job) { j.Spec.Suspend = new(bool) })
		c.until("it goes on", suspended(corev1.ConditionFalse))
		c.until("it starts anew", func(r resource.Reader) bool {
			return job(r).Status.StartTime.After(began.Time) && job(r).Status.Active == 1
		})
	})
}

// What does not happen is not told: no scaling to nothing, no failure to make a pod whose name somebody else has; a new pod
// waits for its claim to go.
func TestNotTold(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		d := make1(c, kinds.Deployments, deployment("none", 0))
		make1(c, kinds.Pods, &corev1.Pod{ObjectMeta: meta("s-0"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}})
		make1(c, kinds.StatefulSets, statefulSet("s", 1, nil))
		going := make1(c, kinds.PersistentVolumeClaims,
			claimOf("data-v-0", func(p *corev1.PersistentVolumeClaim) { p.Finalizers = []string{"a.b/c"} }))
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", going.Name, nil); err != nil {
			c.t.Fatal(err)
		}
		make1(c, kinds.StatefulSets, statefulSet("v", 1, func(s *appsv1.StatefulSetSpec) {
			s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: going.Spec}}
		}))
		c.told("v", "FailedCreate", "Create Pod v-0 in StatefulSet v failed error: pvc data-v-0 is being deleted")
		c.until("the deployment is complete", func(r resource.Reader) bool {
			now := resource.Get(r, kinds.Deployments, "default", "none")
			return now.Status.ObservedGeneration == now.Generation && now.Annotations["deployment.kubernetes.io/revision"] == "1"
		})
		if now := resource.Get(c.Read(), kinds.Deployments, "default", "none"); now.Generation != d.Generation {
			c.t.Errorf("its revision raised the generation to %d", now.Generation)
		}
		edit(c, kinds.Deployments, "default", "none", "", func(d *appsv1.Deployment) { d.Annotations["kubernetes.io/change-cause"] = "mine" })
		c.until("its annotations are handed down", func(r resource.Reader) bool {
			now, sets := resource.Get(r, kinds.Deployments, "default", "none"), resource.List(r, kinds.ReplicaSets, "default")
			return now.Generation == d.Generation+1 && now.Status.ObservedGeneration == now.Generation &&
				len(sets) == 1 && sets[0].Annotations["kubernetes.io/change-cause"] == "mine" && sets[0].Generation == 1
		})
		time.Sleep(time.Minute)
		for _, e := range resource.List(c.Read(), kinds.Events, "default") {
			if e.InvolvedObject.Name == "none" || e.InvolvedObject.Name == "s" {
				c.t.Errorf("%s: %s %s", e.InvolvedObject.Name, e.Reason, e.Message)
			}
		}
	})
}
