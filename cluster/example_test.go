package cluster_test

import (
	"context"
	"fmt"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kit/whole"
)

// A whole cluster for one test: in memory, with a simulated node, talked to by client-go.
func ExampleStart() {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(), SimNodes: 1, Log: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop()

	cfg, err := c.Rest()
	if err != nil {
		log.Fatal(err)
	}
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	labels := map[string]string{"app": "web"}
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	deployments := cs.AppsV1().Deployments("default")
	if web, err = deployments.Create(ctx, web, metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	w, err := deployments.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web", ResourceVersion: web.ResourceVersion})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if d := event.Object.(*appsv1.Deployment); d.Status.AvailableReplicas == 1 {
			fmt.Println(d.Name, "is available")
			break
		}
	}
	// Output: web is available
}

// The front door alone, as controller-runtime's envtest has it: what is written stays as it was written.
func ExampleStart_alone() {
	c, err := cluster.Start(context.Background(), cluster.Config{Kit: whole.Kit(),
		NoLoops: true, AdmissionOff: []string{"ServiceAccount"}, Log: quiet})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Stop()
	kubeconfig, err := c.Kubeconfig("jane", "developers")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(kubeconfig) > 0)
	// Output: true
}
