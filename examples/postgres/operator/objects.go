package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// instanceRole is the ClusterRole of instances, in config/operator.yaml.
const instanceRole = "postgres-instance"

// user is the uid of postgres in the image.
const user = 999

func belonging(c *v1alpha1.PostgresCluster, name string, labels map[string]string) metav1.ObjectMeta {
	all := map[string]string{v1alpha1.ClusterLabel: c.Name}
	for k, v := range labels {
		all[k] = v
	}
	return metav1.ObjectMeta{Namespace: c.Namespace, Name: name, Labels: all,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, v1alpha1.GroupVersion.WithKind("PostgresCluster"))}}
}

// podSpec is that of an instance, or of the archive: the program's first argument, which is also its role.
func podSpec(c *v1alpha1.PostgresCluster, name, program string) corev1.PodSpec {
	from := func(env, field string) corev1.EnvVar {
		return corev1.EnvVar{Name: env, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}}
	}
	secret := func(env, name, key string) corev1.EnvVar {
		return corev1.EnvVar{Name: env, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}}}
	}
	spec := corev1.PodSpec{
		ServiceAccountName: c.Name, TerminationGracePeriodSeconds: new(int64(60)),
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)), RunAsNonRoot: new(true),
			// The default policy walks a whole database at each start, and opens it to the group, which PostgreSQL refuses.
			FSGroup: new(int64(user)), FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "postgres", Image: c.Spec.Image, Args: []string{program, "--cluster", c.Name},
			Env: []corev1.EnvVar{from("NAMESPACE", "metadata.namespace"), from("POD", "metadata.name"), from("POD_UID", "metadata.uid"),
				secret("STREAMER_PASSWORD", c.Name, "streamer"), secret("APP_PASSWORD", c.Name, "password"),
				secret("ARCHIVE_TOKEN", c.Name, "token")},
			Ports: []corev1.ContainerPort{{Name: "manager", ContainerPort: 8008}},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 2,
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("manager")}}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}},
	}
	if from := c.Spec.RestoreFrom; from != nil {
		token := secret("SOURCE_TOKEN", from.Cluster, "token")
		token.ValueFrom.SecretKeyRef.Optional = new(true) // the other cluster may be gone one day
		spec.Containers[0].Env = append(spec.Containers[0].Env, token)
	}
	if program != v1alpha1.Archive {
		spec.Containers[0].Ports = append(spec.Containers[0].Ports, corev1.ContainerPort{Name: "postgres", ContainerPort: 5432})
		spec.Affinity = apart(c)
	}
	return spec
}

// apart spreads instances over nodes as far as there are any.
func apart(c *v1alpha1.PostgresCluster) *corev1.Affinity {
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{
		MatchLabels:      map[string]string{v1alpha1.ClusterLabel: c.Name},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: v1alpha1.InstanceLabel, Operator: metav1.LabelSelectorOpExists}},
	}}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: term}}}}
}

// hash is of what a pod is made from. What differs needs another pod.
func hash(spec corev1.PodSpec) string {
	text, err := json.Marshal(spec)
	if err != nil { // plain fields: it can't fail
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:5])
}

func instancePod(c *v1alpha1.PostgresCluster, name string) *corev1.Pod {
	spec := podSpec(c, name, "instance")
	labels := map[string]string{v1alpha1.InstanceLabel: name, v1alpha1.RoleLabel: v1alpha1.Replica}
	pod := &corev1.Pod{ObjectMeta: belonging(c, name, labels), Spec: spec}
	pod.Annotations = map[string]string{v1alpha1.HashAnno: hash(spec)}
	return pod
}

func archivePod(c *v1alpha1.PostgresCluster) *corev1.Pod {
	spec := podSpec(c, archiveName(c), v1alpha1.Archive)
	pod := &corev1.Pod{ObjectMeta: belonging(c, archiveName(c), map[string]string{v1alpha1.RoleLabel: v1alpha1.Archive}), Spec: spec}
	pod.Annotations = map[string]string{v1alpha1.HashAnno: hash(spec)}
	return pod
}

func archiveName(c *v1alpha1.PostgresCluster) string { return c.Name + "-" + v1alpha1.Archive }

// claim has no owner: data goes only when somebody says so.
func claim(c *v1alpha1.PostgresCluster, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	m := belonging(c, name, labels)
	m.OwnerReferences = nil
	return &corev1.PersistentVolumeClaim{ObjectMeta: m, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: c.Spec.StorageSize}},
	}}
}

func services(c *v1alpha1.PostgresCluster) []*corev1.Service {
	service := func(name, role, port string, number int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: belonging(c, c.Name+"-"+name, nil), Spec: corev1.ServiceSpec{
			Selector: map[string]string{v1alpha1.ClusterLabel: c.Name},
			Ports:    []corev1.ServicePort{{Name: port, Port: number, TargetPort: intstr.FromString(port)}},
		}}
		s.Spec.Selector[v1alpha1.RoleLabel] = role
		return s
	}
	list := []*corev1.Service{service("rw", v1alpha1.Primary, "postgres", 5432), service("ro", v1alpha1.Replica, "postgres", 5432)}
	if c.Spec.BackupSchedule != "" {
		list = append(list, service(v1alpha1.Archive, v1alpha1.Archive, "manager", 8008))
	}
	return list
}

// credentials are made once; each password is a result of random.
func credentials(c *v1alpha1.PostgresCluster, random func() string) *corev1.Secret {
	host, password := fmt.Sprintf("%s-rw.%s.svc", c.Name, c.Namespace), random()
	return &corev1.Secret{ObjectMeta: belonging(c, c.Name, nil), StringData: map[string]string{
		"password": password, "streamer": random(), "token": random(), "user": "app", "dbname": "app", "host": host, "port": "5432",
		"uri": fmt.Sprintf("postgresql://app:%s@%s:5432/app", password, host),
	}}
}

func account(c *v1alpha1.PostgresCluster) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: belonging(c, c.Name, nil)}
}

func binding(c *v1alpha1.PostgresCluster) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: belonging(c, c.Name, nil),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: instanceRole},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.Namespace, Name: c.Name}}}
}
