package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// said lists what events about a pod say, without what is its own of it.
func (r *rig) said(pod *corev1.Pod) (list []string) {
	for _, e := range resource.List(r.Read(), kinds.Events, "d") {
		if e.InvolvedObject.Name == pod.Name {
			list = append(list, e.Type+" "+e.Reason+" "+strings.ReplaceAll(e.Message, string(pod.UID), "UID"))
		}
	}
	return list
}

// Events about pods are worded as those of the kubelet 1.37.
func TestEventsOfPods(t *testing.T) {
	noRoot := func(uid *int64) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: uid}
		}
	}
	from := func(v corev1.EnvVarSource) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &v}} }
	}
	all := func(f corev1.EnvFromSource) func(p *corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{f} }
	}
	none := corev1.LocalObjectReference{Name: "none"}
	for _, c := range []struct {
		name string
		edit func(p *corev1.Pod)
		want []string
	}{
		{"starts", nil, []string{"Normal Created Container created", "Normal Started Container started"}},
		{"deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(5)) },
			[]string{"Normal DeadlineExceeded Pod was active on the node longer than the specified deadline"}},
		{"image is root's", noRoot(nil), []string{`Warning Failed Error: container has runAsNonRoot and image will run as root ` +
			`(pod: "p_d(UID)", container: a)`}},
		{"runs as root", noRoot(new(int64(0))), []string{`Warning Failed Error: container's runAsUser breaks non-root policy ` +
			`(pod: "p_d(UID)", container: a)`}},
		{"no map", all(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: none}}),
			[]string{`Warning Failed Error: configmap "none" not found`}},
		{"no secret", all(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: none}}),
			[]string{`Warning Failed Error: secret "none" not found`}},
		{"no map for a variable", from(corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: none, Key: "k"}}),
			[]string{`Warning Failed Error: configmap "none" not found`}},
		{"no secret for a variable", from(corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: none, Key: "k"}}),
			[]string{`Warning Failed Error: secret "none" not found`}},
		{"image can't be had", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "away" },
			[]string{`Warning Failed Failed to pull image "away": no such host`}},
		{"image is forbidden", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "gone" },
			[]string{`Warning Failed Failed to pull image "gone": rpc error: code = NotFound desc = it is gone`}},
		{"image without its secrets", func(p *corev1.Pod) {
			p.Spec.Containers[0].Image = "away"
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{none, {Name: "neither"}}
		}, []string{"Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (none, neither); " +
			"attempting to pull the image may not succeed."}},
		{"no part of a volume", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: "$(NONE)/x"}}
		}, []string{"Warning Failed Error: missing value for NONE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock()
				r.rt.pull = func(p *cri.PullImageRequest) error {
					if p.Image.Image == "gone" {
						return grpcstatus.Error(codes.NotFound, "it is gone")
					}
					return grpcstatus.Error(codes.Unknown, "no such host")
				}
				r.rt.mu.Unlock()
				pod := r.pod("p", c.edit, "a")
				r.until(fmt.Sprint("events say ", c.want), func() bool {
					got := r.said(pod)
					return !slices.ContainsFunc(c.want, func(e string) bool { return !slices.Contains(got, e) })
				})
			})
		})
	}
}

// A resize that has no room says what there is too little of.
func TestResizeSaysWhatLacks(t *testing.T) {
	simulate(t, func(r *rig) {
		r.until("the node is there", func() bool { return resource.Get(r.Read(), kinds.Nodes, "", "n") != nil })
		all := r.agent.allocatable()[corev1.ResourceCPU]
		r.pod("p", func(p *corev1.Pod) { asks(p, 100, 64) }, "a")
		r.pod("other", func(p *corev1.Pod) { asks(p, all.MilliValue()-200, 64) }, "a")
		r.reaches("p", corev1.PodRunning)
		r.reaches("other", corev1.PodRunning)
		r.resize("p", 300, 64)
		r.until("it is told", func() bool {
			return slices.ContainsFunc(r.said(r.get("p")), func(e string) bool {
				return strings.HasPrefix(e, `Warning ResizeDeferred Pod resize OutOfcpu: {"containers":`)
			})
		})
	})
}

// Statuses have the shape of the kubelet's: a container that waits tells of its mounts, the node's conditions have their order, and a pod
// that was not let in tells why and no more.
func TestShapeOfStatuses(t *testing.T) {
	simulate(t, func(r *rig) {
		r.pod("waits", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true}}
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "none"}}}}
		}, "a")
		r.pod("refused", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("10k")}
		}, "a")
		r.until("it waits", func() bool {
			p := r.get("waits")
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
				p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
		})
		st := r.get("waits").Status
		var order []string
		for _, c := range st.Conditions {
			order = append(order, string(c.Type))
		}
		if want := "PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"; strings.Join(order, " ") != want {
			t.Errorf("conditions are %v, want %s", order, want)
		}
		if m := st.ContainerStatuses[0].VolumeMounts; len(m) != 1 || m[0].MountPath != "/v" ||
			*m[0].RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled {
			t.Errorf("its mounts are %+v", m)
		}
		bare := r.reaches("refused", corev1.PodFailed).Status.DeepCopy()
		if bare.StartTime == nil || bare.Reason != "OutOfcpu" || bare.ObservedGeneration != 1 || bare.QOSClass != corev1.PodQOSBurstable {
			t.Errorf("the refused pod says %+v", bare)
		}
		if bare.HostIP != "" || bare.Conditions != nil || bare.ContainerStatuses != nil || bare.Resources != nil ||
			bare.AllocatedResources != nil {
			t.Errorf("the refused pod says more than why: %+v", bare)
		}
	})
}

// Before it has a sandbox a pod says so, with upstream's reason.
func TestNoSandboxYet(t *testing.T) {
	a := testAgent(t)
	st := a.status.podStatus(world{pod: testPod(corev1.RestartPolicyAlways, "", "a"), now: noon,
		probed: func(string) probed { return probed{} }})
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			if c.Status != corev1.ConditionFalse || c.Reason != "PodSandboxNotReady" || c.Message != "no pod sandbox exists" {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Error("it has no such condition")
}

// One whose image can't be had says what the registry said before it says that it waits.
func TestFailedPullShows(t *testing.T) {
	simulate(t, func(r *rig) {
		r.rt.mu.Lock()
		r.rt.pull = func(*cri.PullImageRequest) error { return grpcstatus.Error(codes.Unknown, "no such host") }
		var told []string
		r.status = func(p *corev1.Pod) {
			if w := p.Status.ContainerStatuses[0].State.Waiting; w != nil {
				told = append(told, w.Reason+": "+w.Message)
			}
		}
		r.rt.mu.Unlock()
		r.pod("p", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "away" }, "a")
		r.rests(5 * time.Second)
		_, _, _, err := r.agent.find("d", "p", "a", false)
		if text := `container "a" in pod "p" is waiting to start: trying and failing to pull image`; err == nil || err.Error() != text {
			t.Errorf("of its log it is told %v", err)
		}
		r.stop()
		want := "ContainerCreating: |ErrImagePull: no such host|ImagePullBackOff: Back-off pulling image \"away\": ErrImagePull: no such host"
		if got := strings.Join(slices.Compact(told), "|"); got != want {
			t.Errorf("its status told %s, want %s", got, want)
		}
	})
}

// Mounts that must be read-only with all that is mounted below are so, or the container does not start. The status tells which are.
func TestReadOnlyThroughout(t *testing.T) {
	for _, c := range []struct {
		name     string
		mode     corev1.RecursiveReadOnlyMode
		supports bool
		mounted  bool
		want     corev1.RecursiveReadOnlyMode
		waits    string
	}{
		{"must", corev1.RecursiveReadOnlyEnabled, true, true, corev1.RecursiveReadOnlyEnabled, ""},
		{"must and can't", corev1.RecursiveReadOnlyEnabled, false, false, corev1.RecursiveReadOnlyDisabled,
			`failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		{"may", corev1.RecursiveReadOnlyIfPossible, true, true, corev1.RecursiveReadOnlyEnabled, ""},
		{"may and can't", corev1.RecursiveReadOnlyIfPossible, false, false, corev1.RecursiveReadOnlyDisabled, ""},
		{"need not", corev1.RecursiveReadOnlyDisabled, true, false, corev1.RecursiveReadOnlyDisabled, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, func(r *rig) {
				r.rt.mu.Lock()
				r.rt.handlers = []*cri.RuntimeHandler{{Features: &cri.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: c.supports}}}
				r.rt.mu.Unlock()
				r.pod("p", func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
					p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &c.mode}}
				}, "a")
				r.rests(5 * time.Second)
				s := r.get("p").Status.ContainerStatuses[0]
				text := ""
				if s.State.Waiting != nil {
					text = s.State.Waiting.Message
				}
				if text != c.waits || (s.State.Running != nil) != (c.waits == "") {
					t.Errorf("its state is %+v", s.State)
				}
				if got := *s.VolumeMounts[0].RecursiveReadOnly; got != c.want {
					t.Errorf("its status tells %s, want %s", got, c.want)
				}
				r.rt.mu.Lock()
				defer r.rt.mu.Unlock()
				for _, conf := range r.rt.configs {
					for _, m := range conf.Mounts {
						if m.ContainerPath == "/v" && m.RecursiveReadOnly != c.mounted {
							t.Errorf("it is mounted %+v", m)
						}
					}
				}
			})
		})
	}
}

// What a container without a request of its own may use of its pod's limit is its weight too.
func TestWeightByThePodsLimit(t *testing.T) {
	pod := testPod(corev1.RestartPolicyAlways, "", "a")
	pod.ObjectMeta = metav1.ObjectMeta{UID: "u"}
	pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("200m")}}
	if r := resources(pod, &pod.Spec.Containers[0]); r.CpuShares != 204 || r.CpuQuota != 20000 {
		t.Errorf("%d shares, a quota of %d", r.CpuShares, r.CpuQuota)
	}
}
