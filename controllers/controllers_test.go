package controllers_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

func isConflict(err error) bool { return apierrors.IsConflict(err) }

func deployment(name string, replicas int32) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
}

func TestDeployment(t *testing.T) {
	simulate(t, 3, func(c *cluster) {
		make1(c, kinds.Services, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}})
		make1(c, kinds.Deployments, deployment("web", 10))
		c.until("ten ready pods", func(r resource.Reader) bool { return ready(r, "app", "web") == 10 })
		c.until("the deployment says so", func(r resource.Reader) bool {
			d := resource.Get(r, kinds.Deployments, "default", "web")
			return d.Status.AvailableReplicas == 10 && d.Status.UpdatedReplicas == 10
		})
		c.until("ten endpoints", func(r resource.Reader) bool { return endpoints(r) == 10 })

		edit(c, kinds.Deployments, "default", "web", "", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "i:2" })
		c.until("all pods are new", func(r resource.Reader) bool {
			n := 0
			for _, p := range resource.List(r, kinds.Pods, "default") {
				if p.Spec.Containers[0].Image != "i:2" {
					return false
				}
				n++
			}
			return n == 10
		})
		edit(c, kinds.Deployments, "default", "web", "", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) })
		c.until("no pods", func(r resource.Reader) bool { return ready(r, "app", "web") == 0 && endpoints(r) == 0 })
		if err := c.Delete(c.t.Context(), kinds.Deployments, "default", "web", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("its sets are gone", func(r resource.Reader) bool { return len(resource.List(r, kinds.ReplicaSets, "")) == 0 })
	})
}

func endpoints(r resource.Reader) (n int) {
	for obj := range r.ByLabel(kinds.EndpointSlices, "default", discoveryv1.LabelServiceName, "web") {
		n += len(obj.(*discoveryv1.EndpointSlice).Endpoints)
	}
	for _, sub := range resource.Get(r, kinds.Endpoints, "default", "web").Subsets {
		if len(sub.Addresses) != n {
			return -1
		}
	}
	return n
}

func TestNamespaceGoes(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		make1(c, kinds.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
		c.until("its account and its certificate", func(r resource.Reader) bool {
			return resource.Get(r, kinds.ServiceAccounts, "x", "default") != nil && resource.Get(r, kinds.ConfigMaps, "x", "kube-root-ca.crt") != nil
		})
		d := deployment("web", 5)
		d.Namespace = "x"
		make1(c, kinds.Deployments, d)
		c.until("pods", func(r resource.Reader) bool { return len(resource.List(r, kinds.Pods, "x")) == 5 })
		if err := c.Delete(c.t.Context(), kinds.Namespaces, "", "x", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("the namespace is gone", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Namespaces, "", "x") == nil && len(resource.List(r, kinds.Pods, "x")) == 0
		})
	})
}

func TestNodeFallsSilent(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
		make1(c, kinds.Nodes, n)
		sec := int64(1)
		short := &corev1.Pod{ObjectMeta: meta("short"), Spec: template(nil).Spec}
		short.Spec.NodeName, short.Spec.TerminationGracePeriodSeconds = "real", new(int64(30))
		short.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &sec}}
		forever := &corev1.Pod{ObjectMeta: meta("forever"), Spec: *short.Spec.DeepCopy()}
		forever.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		make1(c, kinds.Pods, short)
		make1(c, kinds.Pods, forever)
		c.until("the node is tainted", func(r resource.Reader) bool {
			return len(resource.Get(r, kinds.Nodes, "", "real").Spec.Taints) == 2
		})
		c.until("the pod with little patience is evicted", func(r resource.Reader) bool {
			return resource.Get(r, kinds.Pods, "default", "short").DeletionTimestamp != nil
		})
		if n := c.counted("node_collector_evictions_total"); n != 1 {
			c.t.Errorf("%v nodes are told to have lost their pods", n)
		}
		l := resource.Get(c.Read(), kinds.Pods, "default", "short").Status.Conditions
		if !slices.ContainsFunc(l, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByTaintManager"
		}) {
			c.t.Errorf("its conditions: %v", l)
		}
		if p := resource.Get(c.Read(), kinds.Pods, "default", "forever"); p.DeletionTimestamp != nil {
			c.t.Error("the pod that tolerates everything is evicted")
		}
		for _, n := range resource.List(c.Read(), kinds.Nodes, "") {
			if n.Name != "real" && len(n.Spec.Taints) > 0 {
				c.t.Errorf("%s beats and has taints %v", n.Name, n.Spec.Taints)
			}
		}
		edit(c, kinds.Nodes, "", "real", "status", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		})
		c.until("back to normal", func(r resource.Reader) bool { return len(resource.Get(r, kinds.Nodes, "", "real").Spec.Taints) == 0 })
	})
}

func TestPodsOfADeletedNode(t *testing.T) {
	simulate(t, 2, func(c *cluster) {
		make1(c, kinds.ReplicaSets, replicaSet("web", 4))
		c.until("four ready pods", func(r resource.Reader) bool { return ready(r, "app", "web") == 4 })
		if err := c.Delete(c.t.Context(), kinds.Nodes, "", "sim-0", nil); err != nil {
			c.t.Fatal(err)
		}
		c.until("four ready pods elsewhere", func(r resource.Reader) bool {
			return len(resource.Where(r, kinds.Pods, "spec.nodeName", "sim-0")) == 0 && ready(r, "app", "web") == 4
		})
	})
}

func replicaSet(name string, n int32) *appsv1.ReplicaSet {
	l := map[string]string{"app": name}
	return &appsv1.ReplicaSet{ObjectMeta: meta(name), Spec: appsv1.ReplicaSetSpec{Replicas: &n,
		Selector: &metav1.LabelSelector{MatchLabels: l}, Template: template(l)}}
}

func TestQuota(t *testing.T) {
	simulate(t, 1, func(c *cluster) {
		hard := corev1.ResourceList{"pods": apiresource.MustParse("10"), "count/replicasets.apps": apiresource.MustParse("5")}
		make1(c, kinds.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: meta("q"), Spec: corev1.ResourceQuotaSpec{Hard: hard}})
		used := func(pods, sets int64) func(r resource.Reader) bool {
			return func(r resource.Reader) bool {
				st := resource.Get(r, kinds.ResourceQuotas, "default", "q").Status
				p, s := st.Used["pods"], st.Used["count/replicasets.apps"]
				return len(st.Hard) == 2 && p.Value() == pods && s.Value() == sets
			}
		}
		c.until("nothing is used", used(0, 0))
		make1(c, kinds.ReplicaSets, replicaSet("web", 3))
		c.until("three pods of one set are used", used(3, 1))
		edit(c, kinds.ReplicaSets, "default", "web", "", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32) })
		c.until("the pods are free again", used(0, 1))
	})
}
