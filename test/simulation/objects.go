package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/sim"
)

// urgent is a class of pods before which others make room.
const urgent = "urgent"

// maxReplicas bounds each workload, so that all that a workload makes fits on three nodes.
const maxReplicas = 4

func nodeOf(name, zone string) *corev1.Node {
	has := corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("6"), corev1.ResourceMemory: apiresource.MustParse("16Gi"),
		corev1.ResourcePods: apiresource.MustParse("30")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{sim.Fake: "fake",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}}, Status: corev1.NodeStatus{Capacity: has,
		Allocatable: has}}
}

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// templateOf is a pod that asks for some of a node; a few of them fill one.
func templateOf(d *rand.Rand, app string) corev1.PodTemplateSpec {
	asks := corev1.ResourceList{corev1.ResourceCPU: *apiresource.NewMilliQuantity(int64(100*(1+d.IntN(5))), apiresource.DecimalSI)}
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(1 + d.Int64N(5))),
			Containers: []corev1.Container{{Name: "c", Image: "image:0",
				Resources: corev1.ResourceRequirements{Requests: asks}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}}}
	t.Annotations = map[string]string{}
	for _, x := range []struct {
		key string
		of  []string
	}{{sim.Ready, []string{"", "1s", "3s", "8s"}}, {sim.Pull, []string{"", "", "1s", "4s"}}, {sim.Stop, []string{"", "1s", "5s"}},
		{sim.Run, []string{"", "2s", "9s"}}, {sim.Crash, []string{"", "", "", "", "1x1", "1x2"}}} {
		if v := x.of[d.IntN(len(x.of))]; v != "" {
			t.Annotations[x.key] = v
		}
	}
	return t
}

func deploymentOf(d *rand.Rand, namespace, name string) *appsv1.Deployment {
	t := templateOf(d, name)
	x := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(1 + d.IntN(maxReplicas))), Selector: selecting(name), Template: t}}
	switch d.IntN(4) {
	case 0:
		x.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	default:
		surge, down := intstr.FromInt32(int32(d.IntN(3))), intstr.FromInt32(int32(d.IntN(2)))
		if surge.IntVal+down.IntVal == 0 {
			surge = intstr.FromInt32(1)
		}
		x.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &down}
	}
	if d.IntN(4) == 0 {
		x.Spec.Template.Spec.PriorityClassName = urgent
	}
	if d.IntN(5) == 0 {
		x.Spec.MinReadySeconds = int32(1 + d.IntN(5))
	}
	return x
}

func statefulSetOf(d *rand.Rand, namespace, name string) *appsv1.StatefulSet {
	x := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1 + d.IntN(maxReplicas))), ServiceName: name, Selector: selecting(name), Template: templateOf(d, name)}}
	if d.IntN(3) == 0 {
		x.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	if d.IntN(2) == 0 {
		x.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				StorageClassName: new(name),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}}}}}
	}
	return x
}

// volumeOf is a disk that only the set's claims can have.
func volumeOf(name, set string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{StorageClassName: set,
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + name}}}}
}

func daemonSetOf(d *rand.Rand, namespace, name string, port int32) *appsv1.DaemonSet {
	x := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: selecting(name), Template: templateOf(d, name)}}
	x.Spec.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: port, HostPort: port}}
	if d.IntN(3) == 0 {
		none, one := intstr.FromInt32(0), intstr.FromInt32(1)
		x.Spec.Template.Spec.Containers[0].Ports = nil
		x.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{MaxSurge: &one, MaxUnavailable: &none}
	}
	return x
}

func jobOf(d *rand.Rand, namespace, name string) *batchv1.Job {
	t := templateOf(d, name)
	t.Labels = nil
	delete(t.Annotations, sim.Crash)
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	x := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: batchv1.JobSpec{Template: t,
		Completions: new(int32(1 + d.IntN(4))), Parallelism: new(int32(1 + d.IntN(3))), BackoffLimit: new(int32(1000))}}
	if d.IntN(4) == 0 {
		x.Spec.TTLSecondsAfterFinished = new(int32(1 + d.IntN(60)))
	}
	indexed := new(batchv1.IndexedCompletion)
	fails := func() { x.Spec.Template.Annotations[sim.Exit] = "3" }
	switch d.IntN(8) {
	case 0, 1:
		x.Spec.CompletionMode = indexed
	case 2:
		x.Spec.BackoffLimit = new(int32(d.IntN(2)))
		fails()
	case 3:
		x.Spec.CompletionMode, x.Spec.BackoffLimit, x.Spec.BackoffLimitPerIndex = indexed, nil, new(int32(d.IntN(2)))
		fails()
	case 4:
		x.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{3}}}}}
		fails()
	case 5:
		x.Spec.CompletionMode = indexed
		x.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("0")}}}
	}
	return x
}

// claimingSetOf is a set whose volumes are provided when they are asked for, and kept or not when they are not needed.
func claimingSetOf(d *rand.Rand, namespace, name string) *appsv1.StatefulSet {
	x := statefulSetOf(d, namespace, name)
	keep := func() appsv1.PersistentVolumeClaimRetentionPolicyType {
		return []appsv1.PersistentVolumeClaimRetentionPolicyType{appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			appsv1.DeletePersistentVolumeClaimRetentionPolicyType}[d.IntN(2)]
	}
	x.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: keep(),
		WhenScaled: keep()}
	x.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: new([]string{"immediate", "waitforfirstconsumer"}[d.IntN(2)]),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: apiresource.MustParse("1Gi")}}}}}
	return x
}

// decode fills an object from what a YAML text says. The texts are part of the workload.
func decode[T any](obj T, format string, args ...any) T {
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, strings.ReplaceAll(format, "\t", " "), args...), obj); err != nil {
		panic(fmt.Errorf("%w in %s", err, fmt.Sprintf(format, args...)))
	}
	return obj
}

func milli(n int64) *apiresource.Quantity {
	return apiresource.NewMilliQuantity(n, apiresource.DecimalSI)
}
func count(n int64) *apiresource.Quantity { return apiresource.NewQuantity(n, apiresource.DecimalSI) }

func cronJobOf(d *rand.Rand, namespace, name string) *batchv1.CronJob {
	j := jobOf(d, namespace, name)
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *",
		ConcurrencyPolicy: []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}[d.IntN(3)],
		JobTemplate:       batchv1.JobTemplateSpec{Spec: j.Spec}}}
}

func quotaOf(namespace string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quota"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for _, r := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceRequestsCPU, corev1.ResourceServices,
		"count/replicasets.apps"} {
		q.Spec.Hard[r] = apiresource.MustParse("500")
	}
	return q
}

func serviceOf(namespace, name, app string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}}}
}
