package controllers_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/sim"
)

// Behaviours that upstream's end-to-end specs name, and that no other test here is about: see test/docs/testdata/specs.tsv.

// Pods that own each other in a circle all go with one of them.
func TestCircleOfOwnersGoes(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		var made []*corev1.Pod
		for _, name := range []string{"a", "b", "c"} {
			p := &corev1.Pod{ObjectMeta: meta(name), Spec: template(nil).Spec}
			made = append(made, make1(c, kinds.Pods, p))
		}
		for i, p := range made {
			owner := made[(i+2)%3]
			edit(c, kinds.Pods, "default", p.Name, "", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kinds.Pods.GVK)}
			})
		}
		foreground := metav1.DeletePropagationForeground
		err := c.Delete(c.t.Context(), kinds.Pods, "default", "a", &metav1.DeleteOptions{PropagationPolicy: &foreground})
		if err != nil {
			c.t.Fatal(err)
		}
		c.until("all pods are gone", func(r resource.Reader) bool { return len(resource.List(r, kinds.Pods, "default")) == 0 })
	})
}

// What a Deployment, a Job or a CronJob made goes with it, at every depth.
func TestWhatWasMadeGoesToo(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Deployments, deployed(2, nil))
		long := finishing("long", 3600)
		long.Spec.Template.Annotations = nil
		make1(c, kinds.Jobs, long)
		cron := hourly("cron")
		cron.Spec.Schedule = "* * * * *"
		make1(c, kinds.CronJobs, cron)
		c.until("all have what they make", func(r resource.Reader) bool {
			return ready(r, "app", "d") == 2 && runs(r, "cron") > 0 && len(resource.List(r, kinds.Pods, "default")) >= 4
		})
		for _, d := range []struct {
			kind resource.Kind
			name string
		}{{kinds.Deployments, "d"}, {kinds.Jobs, "long"}, {kinds.CronJobs, "cron"}} {
			if err := c.Delete(c.t.Context(), d.kind, "default", d.name, backgroundly()); err != nil {
				c.t.Fatal(err)
			}
		}
		c.until("nothing is left", func(r resource.Reader) bool {
			return len(resource.List(r, kinds.Pods, "default"))+len(resource.List(r, kinds.Jobs, "default"))+
				len(resource.List(r, kinds.ReplicaSets, "default")) == 0
		})
	})
}

// A Job that another controller looks after is left alone, also when it is suspended and resumed.
func TestJobOfAnotherController(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		j := finishing("theirs", 3600)
		j.Spec.ManagedBy = new("example.com/own")
		make1(c, kinds.Jobs, j)
		for _, suspend := range []bool{true, false} {
			edit(c, kinds.Jobs, "default", "theirs", "", func(j *batchv1.Job) { j.Spec.Suspend = &suspend })
			time.Sleep(time.Minute)
		}
		got := resource.Get(c.Read(), kinds.Jobs, "default", "theirs")
		if n := len(resource.List(c.Read(), kinds.Pods, "default")); n > 0 || got.Status.StartTime != nil || len(got.Status.Conditions) > 0 {
			t.Errorf("%d pods, status %+v", n, got.Status)
		}
	})
}

// A Job tells how many of its pods are ready, and ends a little later.
func TestJobTellsOfReadyPods(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		j := finishing("two", 3600)
		j.Spec.Template.Annotations[sim.Run] = "1m"
		j.Spec.Parallelism, j.Spec.Completions = new(int32(2)), new(int32(2))
		make1(c, kinds.Jobs, j)
		c.until("two are ready", func(r resource.Reader) bool {
			s := resource.Get(r, kinds.Jobs, "default", "two").Status
			return s.Ready != nil && *s.Ready == 2 && s.Active == 2
		})
	})
}

// A pod of a StatefulSet that failed, as an evicted one does, is made anew under its name.
func TestEvictedPodOfAStatefulSet(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		l := map[string]string{"app": "s"}
		make1(c, kinds.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("s"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}})
		c.until("it runs", func(r resource.Reader) bool { return ready(r, "app", "s") == 1 })
		first := resource.Get(c.Read(), kinds.Pods, "default", "s-0").UID
		edit(c, kinds.Pods, "default", "s-0", "status", func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
		})
		c.until("another one runs", func(r resource.Reader) bool {
			p := resource.Get(r, kinds.Pods, "default", "s-0")
			return p != nil && p.UID != first && ready(r, "app", "s") == 1
		})
	})
}

// A claim that somebody deletes while the pod of a StatefulSet waits for it is made anew.
func TestClaimOfAWaitingPod(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		l := map[string]string{"app": "s"}
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "my-data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new("none"), // nobody makes volumes of it, and there is no node
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: apiresource.MustParse("1Gi")}}}}
		make1(c, kinds.StatefulSets, &appsv1.StatefulSet{ObjectMeta: meta("a-b"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim}}})
		var first types.UID
		c.until("its pod waits for its claim", func(r resource.Reader) bool {
			pvc := resource.Get(r, kinds.PersistentVolumeClaims, "default", "my-data-a-b-0")
			if pvc == nil || resource.Get(r, kinds.Pods, "default", "a-b-0") == nil {
				return false
			}
			first = pvc.UID
			return true
		})
		if err := c.Delete(c.t.Context(), kinds.PersistentVolumeClaims, "default", "my-data-a-b-0", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("there is another claim", func(r resource.Reader) bool {
			pvc := resource.Get(r, kinds.PersistentVolumeClaims, "default", "my-data-a-b-0")
			return pvc != nil && pvc.UID != first && pvc.DeletionTimestamp == nil
		})
	})
}

// Cluster information is signed with each bootstrap token that comes, anew when it changes, and no more with a token that is gone.
func TestClusterInfoIsSigned(t *testing.T) {
	simulate(t, 0, func(c *cluster) {
		make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespacePublic}})
		make1(c, kinds.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
			Data: map[string]string{"kubeconfig": "clusters: []"}})
		signature := func(r resource.Reader, id string) string {
			return resource.Get(r, kinds.ConfigMaps, metav1.NamespacePublic, "cluster-info").Data["jws-kubeconfig-"+id]
		}
		for _, id := range []string{"abcdef", "fedcba"} {
			make1(c, kinds.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id},
				Type: corev1.SecretTypeBootstrapToken, StringData: map[string]string{"token-id": id, "token-secret": "0123456789abcdef",
					"usage-bootstrap-signing": "true"}})
			c.until("signed by "+id, func(r resource.Reader) bool { return signature(r, id) != "" })
		}
		was := signature(c.Read(), "abcdef")
		edit(c, kinds.ConfigMaps, metav1.NamespacePublic, "cluster-info", "", func(m *corev1.ConfigMap) {
			m.Data["kubeconfig"] = "clusters: [{}]"
		})
		c.until("signed anew", func(r resource.Reader) bool { s := signature(r, "abcdef"); return s != "" && s != was })
		if err := c.Delete(c.t.Context(), kinds.Secrets, "kube-system", "bootstrap-token-abcdef", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("the signature of a token that is gone goes", func(r resource.Reader) bool {
			return signature(r, "abcdef") == "" && signature(r, "fedcba") != ""
		})
	})
}
