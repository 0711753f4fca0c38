package node

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/test/need"
)

func TestExpand(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$(NO)": "$(NO)", "$$(A)": "$(A)", "$$$(A)": "$1", "$": "$", "a$": "a$",
		"$A": "$A", "$(A": "$(A", "$()": "$()", "$(B)": "$(A)", "$$": "$", "$(A)$": "1$",
	} {
		t.Run(in, func(t *testing.T) {
			if got := expand(in, env); got != want {
				t.Errorf("expand %q: %q, want %q", in, got, want)
			}
		})
	}
}

// A container never gets another part of its volume than was meant because a variable is missing.
func TestSubPathExpr(t *testing.T) {
	for _, c := range []struct{ expr, want string }{ // "!": an error
		{"a/$(A)", "a/1"}, {"$$(A)", "$(A)"}, {"$(A", "$(A"}, {"$(NO)", "!missing value for NO"},
		{"$(A)/$(E)/$(NO)$(E)", "!missing value for E, NO"}, {"/$(A)", "!error SubPath `/1` must not be an absolute path"},
		{"$(A)/..", "!unable to provision SubPath `1/..`: must not contain '..'"}, {"a..b", "a..b"},
	} {
		m := &corev1.VolumeMount{Name: "v", SubPath: "no", SubPathExpr: c.expr}
		got, err := subPath(m, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "E"}})
		if err != nil {
			got = "!" + err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.expr, got, c.want)
		}
	}
}

// A container starts when its sub-path can be used at last.
func TestSubPathLater(t *testing.T) {
	need.BeRoot(t)
	simulate(t, func(r *rig) {
		note := func(path string) func(p *corev1.Pod) {
			return func(p *corev1.Pod) { p.Annotations = map[string]string{"sub": path} }
		}
		r.pod("p", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "SUB", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['sub']"}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: "$(SUB)"}}
		}, "a")
		for _, path := range []string{"", "/tmp", ".."} {
			r.edit("p", note(path))
			r.rests(time.Minute)
			s := r.get("p").Status.ContainerStatuses
			if len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "CreateContainerConfigError" {
				t.Errorf("%q: %+v", path, s)
			}
		}
		r.edit("p", note("mine"))
		r.reaches("p", corev1.PodRunning)
		if err := r.Delete(r.t.Context(), kinds.Pods, "d", "p", nil); err != nil {
			t.Fatal(err)
		}
		r.until("it is gone", func() bool { return r.get("p") == nil })
	})
}

func TestServiceVars(t *testing.T) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{
		{Name: "web-ui", Port: 80, Protocol: corev1.ProtocolTCP}, {Port: 53, Protocol: corev1.ProtocolUDP}}}}
	s.Name = "my-svc"
	got := map[string]string{}
	serviceVars(got, s)
	want := map[string]string{"MY_SVC_SERVICE_HOST": "10.0.0.7", "MY_SVC_SERVICE_PORT": "80", "MY_SVC_SERVICE_PORT_WEB_UI": "80",
		"MY_SVC_PORT": "tcp://10.0.0.7:80", "MY_SVC_PORT_80_TCP": "tcp://10.0.0.7:80", "MY_SVC_PORT_80_TCP_PROTO": "tcp",
		"MY_SVC_PORT_80_TCP_PORT": "80", "MY_SVC_PORT_80_TCP_ADDR": "10.0.0.7", "MY_SVC_PORT_53_UDP": "udp://10.0.0.7:53",
		"MY_SVC_PORT_53_UDP_PROTO": "udp", "MY_SVC_PORT_53_UDP_PORT": "53", "MY_SVC_PORT_53_UDP_ADDR": "10.0.0.7"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestFieldValue(t *testing.T) {
	a := testAgent(t)
	p := testPod(never, "", "a")
	p.Labels, p.Annotations = map[string]string{"l": "1"}, map[string]string{"x/y": "2"}
	p.Spec.NodeName, p.Spec.ServiceAccountName = "n", "sa"
	box := &sandbox{ips: []string{"10.1.0.9", "fd00::9"}}
	for path, want := range map[string]string{"metadata.name": "p", "metadata.namespace": "d", "metadata.uid": "u",
		"metadata.labels['l']":        "1",
		"metadata.annotations['x/y']": "2", "metadata.labels['none']": "", "spec.nodeName": "n", "spec.serviceAccountName": "sa",
		"status.hostIP": "10.0.0.1", "status.hostIPs": "10.0.0.1", "status.podIP": "10.1.0.9", "status.podIPs": "10.1.0.9,fd00::9"} {
		t.Run(path, func(t *testing.T) {
			if got, err := a.starter.resolver.fieldValue(p, path, box); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", path, got, err, want)
			}
		})
	}
	if _, err := a.starter.resolver.fieldValue(p, "spec.containers", box); err == nil {
		t.Error("a field that is not for variables is given")
	}
	p.Spec.HostNetwork = true
	if got, _ := a.starter.resolver.fieldValue(p, "status.podIP", box); got != "10.0.0.1" {
		t.Errorf("on the host's network the pod has %q", got)
	}
}

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = apiresource.MustParse(pairs[i+1])
	}
	return list
}

func TestResourceValue(t *testing.T) {
	a := testAgent(t)
	p := testPod(never, "", "a", "b")
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("cpu", "250m", "memory", "64Mi"),
		Limits: quantities("cpu", "1500m", "memory", "100M")}
	for _, c := range []struct{ of, what, by, want string }{
		{"", "limits.cpu", "", "2"}, {"", "limits.cpu", "1m", "1500"}, {"", "requests.cpu", "1m", "250"}, {"", "requests.memory", "1Mi", "64"},
		{"", "limits.memory", "1Mi", "96"}, {"", "limits.memory", "", "100000000"}, {"b", "requests.cpu", "", "0"},
	} {
		t.Run(c.of, func(t *testing.T) {
			ref := &corev1.ResourceFieldSelector{ContainerName: c.of, Resource: c.what}
			if c.by != "" {
				ref.Divisor = apiresource.MustParse(c.by)
			}
			if got, err := a.starter.resolver.resourceValue(p, &p.Spec.Containers[0], ref); err != nil || got != c.want {
				t.Errorf("%s by %q: %q, %v, want %s", c.what, c.by, got, err, c.want)
			}
		})
	}
	p.Spec.Resources = &corev1.ResourceRequirements{Limits: quantities("cpu", "3", "memory", "200Mi")}
	p.Spec.Containers[1].Resources.Limits = quantities("memory", "0")
	for of, want := range map[string]string{"": "96 Mi", "b": "200 Mi"} {
		t.Run(of, func(t *testing.T) { // what a container has not is its pod's
			ref := &corev1.ResourceFieldSelector{ContainerName: of, Resource: "limits.memory", Divisor: apiresource.MustParse("1Mi")}
			if got, err := a.starter.resolver.resourceValue(p, &p.Spec.Containers[0], ref); err != nil || got+" Mi" != want {
				t.Errorf("of %q in a pod with a limit: %s, %v, want %s", of, got, err, want)
			}
		})
	}
}

// A limit that is not set counts as what the node has to give, but for huge pages.
func TestLimitOfTheNode(t *testing.T) {
	simulate(t, func(r *rig) {
		p := testPod(never, "", "a", "b")
		p.Spec.Containers[0].Resources.Limits = quantities("hugepages-2Mi", "4Mi", "ephemeral-storage", "64Mi")
		r.until("the node is there", func() bool { return resource.Get(r.Read(), kinds.Nodes, "", "n") != nil })
		all := r.agent.allocatable()
		for what, want := range map[string]int64{"a limits.hugepages-2Mi": 4 << 20, "b limits.hugepages-2Mi": 0,
			"a limits.ephemeral-storage": 64 << 20, "b limits.ephemeral-storage": all.StorageEphemeral().Value(),
			"b limits.memory": all.Memory().Value(), "b limits.cpu": (all.Cpu().MilliValue() + 999) / 1000} {
			of, name, _ := strings.Cut(what, " ")
			ref := &corev1.ResourceFieldSelector{ContainerName: of, Resource: name}
			got, err := r.agent.starter.resolver.resourceValue(p, &p.Spec.Containers[0], ref)
			if err != nil || got != strconv.FormatInt(want, 10) {
				t.Errorf("%s: %s, %v, want %d", what, got, err, want)
			}
		}
	})
}

func TestResources(t *testing.T) {
	for _, c := range []struct {
		name             string
		requests, limits corev1.ResourceList
		shares, quota    int64
		memory           int64
	}{
		{"none", nil, nil, 2, 0, 0},
		{"request", quantities("cpu", "500m"), nil, 512, 0, 0},
		{"limit stands for the request", nil, quantities("cpu", "2", "memory", "32Mi"), 2048, 200000, 32 << 20},
		{"least", quantities("cpu", "1m"), quantities("cpu", "1m"), 2, 1000, 0},
		{"most", quantities("cpu", "1000"), nil, 262144, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testPod(never, "", "a")
			p.Status.QOSClass = corev1.PodQOSBurstable
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}
			r := resources(p, &p.Spec.Containers[0])
			if r.CpuShares != c.shares || r.CpuQuota != c.quota || r.MemoryLimitInBytes != c.memory || r.MemorySwapLimitInBytes != c.memory {
				t.Errorf("%s: %+v", c.name, r)
			}
			if r.OomScoreAdj < 3 || r.OomScoreAdj > 999 {
				t.Errorf("%s: oom score %d", c.name, r.OomScoreAdj)
			}
		})
	}
	for name, want := range map[corev1.ResourceName]string{"hugepages-2Mi": "2MB", "hugepages-1Gi": "1GB", "memory": "", "hugepages-": ""} {
		if got, _ := hugepage(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A variable with the resources of a container that the pod has not is a mistake.
func TestResourceOfNobody(t *testing.T) {
	a := testAgent(t)
	p := testPod(never, "i", "a", "b")
	for name, want := range map[string]string{"": "", "a": "", "b": "", "i": "", "none": "container none not found"} {
		t.Run(name, func(t *testing.T) {
			_, err := a.starter.resolver.resourceValue(p, &p.Spec.Containers[0],
				&corev1.ResourceFieldSelector{ContainerName: name, Resource: "requests.cpu"})
			if (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
