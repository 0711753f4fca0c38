package scheduler

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// noMatter are the fields that don't decide where a pod can run. What is neither here nor in the key would give a pod the verdict
// on another one.
var noMatter = map[string]string{
	"spec.RestartPolicy":                 "the node's",
	"spec.TerminationGracePeriodSeconds": "the node's",
	"spec.ActiveDeadlineSeconds":         "the node's",
	"spec.DNSPolicy":                     "the node's",
	"spec.DNSConfig":                     "the node's",
	"spec.ServiceAccountName":            "the node's",
	"spec.DeprecatedServiceAccount":      "the node's",
	"spec.AutomountServiceAccountToken":  "the node's",
	"spec.NodeName":                      "a pod that has one is not scheduled",
	"spec.HostNetwork":                   "its ports are host ports by defaulting",
	"spec.HostPID":                       "the node's",
	"spec.HostIPC":                       "the node's",
	"spec.ShareProcessNamespace":         "the node's",
	"spec.SecurityContext":               "the node's",
	"spec.ImagePullSecrets":              "the node's",
	"spec.Hostname":                      "the node's",
	"spec.Subdomain":                     "the node's",
	"spec.HostAliases":                   "the node's",
	"spec.PriorityClassName":             "admission has made it a priority",
	"spec.ReadinessGates":                "the node's",
	"spec.RuntimeClassName":              "admission has made it overhead, a selector and tolerations",
	"spec.EnableServiceLinks":            "the node's",
	"spec.SetHostnameAsFQDN":             "the node's",
	"spec.HostnameOverride":              "the node's",
	"spec.OS":                            "the node's",
	"spec.SchedulingGates":               "a pod that has some is not scheduled",
	"spec.EphemeralContainers":           "come to pods that run",
	"spec.SchedulingGroup":               "pods of a group are scheduled one by one",
	"spec.EvictionResponders":            "whoever evicts asks them",
	"spec.HostUsers":                     "a declared feature where it is one",

	"container.Name":                     "only the claim that is made of it tells",
	"container.Command":                  "the node's",
	"container.Args":                     "the node's",
	"container.WorkingDir":               "the node's",
	"container.EnvFrom":                  "the node's",
	"container.Env":                      "the node's",
	"container.ResizePolicy":             "the node's",
	"container.RestartPolicyRules":       "a declared feature where it is one",
	"container.VolumeMounts":             "a declared feature where it is one",
	"container.VolumeDevices":            "the node's",
	"container.LivenessProbe":            "the node's",
	"container.ReadinessProbe":           "the node's",
	"container.StartupProbe":             "the node's",
	"container.Lifecycle":                "the node's",
	"container.TerminationMessagePath":   "the node's",
	"container.TerminationMessagePolicy": "the node's",
	"container.ImagePullPolicy":          "the node's",
	"container.SecurityContext":          "the node's",
	"container.Stdin":                    "the node's",
	"container.StdinOnce":                "the node's",
	"container.TTY":                      "the node's",
}

// TestDemandHasEveryField changes each field of a pod: the key of its class changes, or the field does not matter and says why.
func TestDemandHasEveryField(t *testing.T) {
	st := newState()
	used := map[string]bool{}
	try := func(kind string, typ reflect.Type, set func(p *corev1.Pod, field int)) {
		for i := range typ.NumField() {
			name := kind + "." + typ.Field(i).Name
			plain, changed := pod("p", "app: a", "cpu=1", "initContainers: [{name: i, image: i}]"),
				pod("p", "app: a", "cpu=1", "initContainers: [{name: i, image: i}]")
			set(changed, i)
			differ := st.demandOf(plain).key != st.demandOf(changed).key
			switch why, known := noMatter[name]; {
			case !differ && !known:
				t.Errorf("%s is not in the demand: filters can't see it, or must not", name)
			case differ && known && why == "the node's":
				t.Errorf("%s is in the demand though it is the node's", name)
			}
			used[name] = true
		}
	}
	try("spec", reflect.TypeFor[corev1.PodSpec](), func(p *corev1.Pod, i int) { fill(reflect.ValueOf(&p.Spec).Elem().Field(i), 0) })
	for _, list := range []func(p *corev1.Pod) *corev1.Container{
		func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] },
		func(p *corev1.Pod) *corev1.Container { return &p.Spec.InitContainers[0] },
	} {
		try("container", reflect.TypeFor[corev1.Container](), func(p *corev1.Pod, i int) {
			fill(reflect.ValueOf(list(p)).Elem().Field(i), 0)
		})
	}
	for name := range noMatter {
		t.Run(name, func(t *testing.T) {
			if !used[name] {
				t.Errorf("there is no field %s", name)
			}
		})
	}
}

// fill gives a value, and what is in it, something that is not zero.
func fill(v reflect.Value, depth int) {
	if depth > 8 {
		return
	}
	if q, ok := v.Addr().Interface().(*resource.Quantity); ok {
		*q = resource.MustParse("7")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, depth+1)
		fill(e, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth+1)
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	}
}

// TestPodsWithClaimsAreNotAlike: whether a claim is reserved for a pod is about that pod alone.
func TestPodsWithClaimsAreNotAlike(t *testing.T) {
	st := newState()
	spec := "resourceClaims: [{name: gpu, resourceClaimName: shared}]"
	if a, b := st.demandOf(pod("a", "", "", spec)), st.demandOf(pod("b", "", "", spec)); a.key == b.key {
		t.Error("two pods that share a claim are one class")
	}
	if a, b := st.demandOf(pod("a", "", "", "")), st.demandOf(pod("b", "", "", "")); a.key != b.key {
		t.Error("two pods that are alike but for their names are two classes")
	}
}
