//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// onePod is a pod of one container named c that runs a shell script. spec and more are YAML, for the pod and for the
// container.
func onePod(name, script, spec, more string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %[1]s, color: blue}}
spec:
  terminationGracePeriodSeconds: 1
%[3]s
  containers:
  - name: c
    image: nginx:1
    command: [sh, -c]
    args:
    - |
%[2]s
%[4]s
`, name, indent(6, script), indent(2, spec), indent(4, more))
}

func indent(n int, text string) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "\n"+pad)
}

func getPod(t *testing.T, ns, name string) *corev1.Pod {
	t.Helper()
	p, err := it.client.CoreV1().Pods(ns).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// reaches waits until the pod's phase is as wanted.
func reaches(t *testing.T, ns, name string, want corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	eventually(t, fmt.Sprintf("pod %s is %s", name, want), func() (bool, string) {
		p = getPod(t, ns, name)
		return p.Status.Phase == want, fmt.Sprintf("%+v", p.Status)
	})
	return p
}

// logged waits for a text in the pod's log, and returns the log.
func logged(t *testing.T, ns, name, want string, args ...string) (out string) {
	t.Helper()
	eventually(t, "pod "+name+" logs "+want, func() (bool, string) {
		var err error
		out, err = it.try(append([]string{"logs", "-n", ns, name}, args...)...)
		return err == nil && strings.Contains(out, want), fmt.Sprint(out, err)
	})
	return out
}

func ends(t *testing.T, p *corev1.Pod) *corev1.ContainerStateTerminated {
	t.Helper()
	term := p.Status.ContainerStatuses[0].State.Terminated
	if term == nil {
		t.Fatalf("pod %s: not terminated: %+v", p.Name, p.Status.ContainerStatuses[0])
	}
	return term
}

// TestPodEnds: phases, exit codes, reasons and last words of pods that end, side by side.
func TestPodEnds(t *testing.T) {
	ns := space(t)
	limit := "resources: {limits: {memory: 24Mi}}"
	apply(t, ns, onePod("good", "echo all is well; echo bye > /dev/termination-log", "restartPolicy: Never", "")+
		onePod("bad", "echo out of; echo luck; exit 3", "restartPolicy: Never", "terminationMessagePolicy: FallbackToLogsOnError")+
		onePod("oom", "x=x; while :; do x=$x$x$x; done", "restartPolicy: Never", limit)+
		onePod("late", "sleep 100", "restartPolicy: Never\nactiveDeadlineSeconds: 2", "")+
		onePod("retry", "[ -e /v/f ] && exit 0; touch /v/f; exit 1", "restartPolicy: OnFailure\nvolumes: [{name: v, emptyDir: {}}]",
			"volumeMounts: [{name: v, mountPath: /v}]")+
		onePod("init", "echo main", "restartPolicy: Never\ninitContainers: [{name: i, image: 'nginx:1', command: [sh, -c, 'exit 4']}]", "")+
		onePod("big", "sleep 100", "nodeName: one", "resources: {requests: {cpu: 500}}"))
	p := reaches(t, ns, "good", corev1.PodSucceeded)
	if term := ends(t, p); term.Reason != "Completed" || term.Message != "bye\n" || term.FinishedAt.IsZero() {
		t.Errorf("good: %+v", term)
	}
	if out := kubectl(t, "logs", "-n", ns, "good"); out != "all is well" {
		t.Errorf("the log of an ended pod: %q", out)
	}
	if term := ends(t, reaches(t, ns, "bad",
		corev1.PodFailed)); term.ExitCode != 3 || term.Reason != "Error" || term.Message != "out of\nluck\n" {
		t.Errorf("bad: %+v", term)
	}
	if term := ends(t, reaches(t, ns, "oom", corev1.PodFailed)); term.ExitCode != 137 || term.Reason != "OOMKilled" {
		t.Errorf("oom: %+v", term)
	}
	if p := reaches(t, ns, "late", corev1.PodFailed); p.Status.Reason != "DeadlineExceeded" {
		t.Errorf("late: %+v", p.Status)
	}
	if p := reaches(t, ns, "retry", corev1.PodSucceeded); p.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("retry: %+v", p.Status.ContainerStatuses[0])
	}
	if p := reaches(t, ns, "init",
		corev1.PodFailed); p.Status.InitContainerStatuses[0].State.Terminated == nil || p.Status.ContainerStatuses[0].State.Waiting == nil {
		t.Errorf("init: %+v", p.Status)
	}
	if p := reaches(t, ns, "big", corev1.PodFailed); p.Status.Reason != "OutOfcpu" {
		t.Errorf("big: %+v", p.Status)
	}
}

func TestCrashLoop(t *testing.T) {
	ns := space(t)
	apply(t, ns, onePod("crash", "echo run; exit 1", "", ""))
	var s corev1.ContainerStatus
	eventually(t, "the pod is in a pause", func() (bool, string) {
		p := getPod(t, ns, "crash")
		if len(p.Status.ContainerStatuses) > 0 {
			s = p.Status.ContainerStatuses[0]
		}
		return s.State.Waiting != nil && s.State.Waiting.Reason == "CrashLoopBackOff" && s.RestartCount > 0, fmt.Sprintf("%+v", s)
	})
	pause := 10 * time.Second << (s.RestartCount - 1) // a busy machine may show a later one than the first
	if !strings.HasPrefix(s.State.Waiting.Message, fmt.Sprintf("back-off %s restarting failed container=c pod=crash_%s", pause,
		ns)) || s.LastTerminationState.Terminated == nil {
		t.Errorf("%+v", s)
	}
	if out := kubectl(t, "logs", "-n", ns, "crash", "-p"); out != "run" {
		t.Errorf("the log of the run before: %q", out)
	}
	eventually(t, "kubectl get says so", func() (bool, string) {
		out, err := it.try("get", "pod", "-n", ns, "crash", "--no-headers")
		return strings.Contains(out, "CrashLoopBackOff"), fmt.Sprint(out, err)
	})
	eventually(t, "it is tried again after the pause", func() (bool, string) {
		n := getPod(t, ns, "crash").Status.ContainerStatuses[0].RestartCount
		return n > s.RestartCount, fmt.Sprint(n)
	})
}

// TestInitAndSidecar: order of init containers, a sidecar that starts up before the main container and is stopped
// after it.
func TestInitAndSidecar(t *testing.T) {
	ns := space(t)
	pod := onePod("p", "cat /v/order; echo main >> /v/order; sleep 2; cat /v/up", `
restartPolicy: Never
volumes: [{name: v, emptyDir: {medium: Memory}}]
initContainers:
- {name: first, image: "nginx:1", command: [sh, -c, "echo first >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}
- name: side
  image: nginx:1
  restartPolicy: Always
  command: [sh, -c, "sleep 1; echo side >> /v/order; trap 'exit 0' TERM; touch /v/up; while :; do sleep 0.1; done"]
  startupProbe: {exec: {command: [test, -e, /v/up]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 300}
  volumeMounts: [{name: v, mountPath: /v}]
- {name: last, image: "nginx:1", command: [sh, -c, "echo last >> /v/order"], volumeMounts: [{name: v, mountPath: /v}]}
`, "volumeMounts: [{name: v, mountPath: /v}]")
	apply(t, ns, strings.ReplaceAll(pod, "PeriodSeconds: 1\n", "PeriodSeconds: 3600\n")) // the sidecar ends by itself
	p := reaches(t, ns, "p", corev1.PodSucceeded)
	if out := kubectl(t, "logs", "-n", ns, "p", "-c", "c"); out != "first\nside\nlast" {
		t.Errorf("the order: %q", out)
	}
	for _, s := range p.Status.InitContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			t.Errorf("%s: %+v", s.Name, s.State)
		}
	}
}

// TestEnvironmentAndVolumes: variables from everywhere, and every kind of plain volume, with what changes live.
// What holds on the server's own node holds on one that has joined.
func TestEnvironmentAndVolumes(t *testing.T) {
	join(t)
	for _, n := range nodes {
		t.Run(n.name, func(t *testing.T) { environmentAndVolumes(t, n.name) })
	}
}

func environmentAndVolumes(t *testing.T, node string) {
	ns := space(t)
	kubectl(t, "create", "configmap", "-n", ns, "conf", "--from-literal=key=one", "--from-literal=other=two")
	kubectl(t, "create", "secret", "generic", "-n", ns, "hidden", "--from-literal=pass=word")
	kubectl(t, "create", "service", "clusterip", "-n", ns, "my-svc", "--tcp=80:80")
	apply(t, ns, onePod("p", "env; echo $(GREETING); sleep 3600", "nodeName: "+node+`
hostname: me
subdomain: sub
hostAliases: [{ip: 10.9.9.9, hostnames: [alias.test]}]
dnsPolicy: None
dnsConfig: {nameservers: [9.9.9.9], searches: [a.test], options: [{name: ndots, value: "3"}]}
volumes:
- {name: conf, configMap: {name: conf, items: [{key: key, path: sub/file}], defaultMode: 0400}}
- {name: secret, secret: {secretName: hidden}}
- {name: down, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}},
    {path: cpu, resourceFieldRef: {containerName: c, resource: limits.cpu, divisor: 1m}}]}}
- name: all
  projected:
    sources:
    - serviceAccountToken: {path: token, audience: me, expirationSeconds: 600}
    - configMap: {name: conf}
    - secret: {name: hidden}
    - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
- {name: host, hostPath: {path: /etc, type: Directory}}
- {name: empty, emptyDir: {}}
`, `
resources: {limits: {cpu: 500m, memory: 64Mi}, requests: {cpu: 100m, memory: 32Mi}}
envFrom: [{prefix: C_, configMapRef: {name: conf}}, {secretRef: {name: hidden}}, {configMapRef: {name: none, optional: true}}]
env:
- {name: KEY, valueFrom: {configMapKeyRef: {name: conf, key: key}}}
- {name: PASS, valueFrom: {secretKeyRef: {name: hidden, key: pass}}}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['color']"}}}
- {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
- {name: MEM, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}
- {name: GREETING, value: "hello $(KEY) from $(NODE) $$(KEY)"}
volumeMounts:
- {name: conf, mountPath: /conf}
- {name: conf, mountPath: /alone, subPath: sub/file}
- {name: secret, mountPath: /secret, readOnly: true}
- {name: down, mountPath: /down}
- {name: all, mountPath: /all}
- {name: host, mountPath: /host, readOnly: true}
- {name: empty, mountPath: /empty, subPathExpr: "dir-$(LABEL)"}
`))
	kubectl(t, "wait", "-n", ns, "pod/p", "--for=condition=Ready", "--timeout=240s")
	p := getPod(t, ns, "p")
	out := logged(t, ns, "p", "\nhello") // the last line
	for _, want := range []string{"KEY=one", "PASS=word", "NODE=" + node, "IP=" + p.Status.PodIP, "LABEL=blue", "CPU=500", "MEM=32",
		"C_other=two", "pass=word",
		"GREETING=hello one from " + node + " $(KEY)", "MY_SVC_SERVICE_PORT=80", "MY_SVC_SERVICE_HOST=", "KUBERNETES_SERVICE_HOST=",
		"\nhello one from " + node} {
		if !strings.Contains(out, want) {
			t.Errorf("the environment lacks %s:\n%s", want, out)
		}
	}
	in := func(cmd string) string {
		out, err := it.try("exec", "-n", ns, "p", "--", "sh", "-c", cmd)
		return fmt.Sprint(out, errText(err))
	}
	for cmd, want := range map[string]string{
		"cat /conf/sub/file /alone /secret/pass": "oneoneword", "cat /down/cpu": "500", "cat /all/key /all/pass /all/name": "onewordp",
		"cut -d. -f2 /all/token | wc -l": "1", "hostname": "me", "test -d /host/apt && echo yes": "yes",
		"touch /empty/x && ls /empty": "x", "touch /secret/x 2>/dev/null || echo ro": "ro", "touch /host/x 2>/dev/null || echo ro": "ro",
		"grep -c alias.test /etc/hosts": "1", "head -1 /etc/hosts": "# Kubernetes-managed hosts file.", "grep -c me.sub." + ns +
			".svc /etc/hosts": "1",
		"cat /etc/resolv.conf | tr '\\n' ' '": "search a.test nameserver 9.9.9.9 options ndots:3", "stat -Lc %a /conf/sub/file": "400",
		"test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo yes": "yes",
		"grep -c color /down/labels": "1"} {
		if got := strings.TrimSpace(in(cmd)); got != want {
			t.Errorf("%s: %q, want %q", cmd, got, want)
		}
	}
	kubectl(t, "patch", "configmap", "-n", ns, "conf", "-p", `{"data":{"key":"uno"}}`)
	kubectl(t, "label", "pod", "-n", ns, "p", "color=red", "--overwrite")
	eventually(t, "the volumes follow", func() (bool, string) {
		out := in("cat /conf/sub/file /all/key; grep color /down/labels")
		return strings.HasPrefix(out, "unouno") && strings.Contains(out, "red"), out
	})
	if out := in("cat /alone"); out != "one" {
		t.Errorf("a sub-path follows too: %q", out)
	}
}

func errText(err error) string {
	if err != nil {
		return " error: " + err.Error()
	}
	return ""
}

// TestVariablesFromFiles: what an init container left in a file becomes variables of the next one, without a volume mounted there; a key
// that is missing keeps a container from starting, and one that is optional does not.
func TestVariablesFromFiles(t *testing.T) {
	ns := space(t)
	writes := `
volumes: [{name: v, emptyDir: {}}]
initContainers:
- {name: i, image: "nginx:1", command: [sh, -c, "printf \"# mine\\nTOKEN='a b'\\n\" > /v/e.env"], volumeMounts: [{name: v, mountPath: /v}]}`
	key := "- {name: %s, valueFrom: {fileKeyRef: {volumeName: v, path: e.env, key: %s, optional: %t}}}\n"
	apply(t, ns, onePod("p", "echo \"got <$TOKEN> <${GONE-unset}>\"; sleep 3600", writes,
		"env:\n"+fmt.Sprintf(key, "TOKEN", "TOKEN", false)+fmt.Sprintf(key, "GONE", "OTHER", true))+
		onePod("lacks", "sleep 3600", writes, "env:\n"+fmt.Sprintf(key, "TOKEN", "OTHER", false)))
	if out := logged(t, ns, "p", "got"); out != "got <a b> <unset>" {
		t.Errorf("the container has %q", out)
	}
	eventually(t, "a container without its key waits", func() (bool, string) {
		s := getPod(t, ns, "lacks").Status.ContainerStatuses
		return len(s) > 0 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError" &&
			strings.Contains(s[0].State.Waiting.Message, `"OTHER" not found in file "e.env"`), fmt.Sprintf("%+v", s)
	})
}

func TestSecurityContext(t *testing.T) {
	ns := space(t)
	apply(t, ns, onePod("p", "sleep 3600", `
securityContext: {runAsUser: 1234, runAsGroup: 2345, fsGroup: 3456, supplementalGroups: [4567], runAsNonRoot: true}
volumes: [{name: v, emptyDir: {}}]`, `
securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]},
  seccompProfile: {type: RuntimeDefault}}
volumeMounts: [{name: v, mountPath: /v}]`)+
		onePod("root", "sleep 3600", "", "securityContext: {runAsNonRoot: true}"))
	kubectl(t, "wait", "-n", ns, "pod/p", "--for=condition=Ready", "--timeout=240s")
	for cmd, want := range map[string]string{
		"id -u; id -g": "1234\n2345", "id -G | grep -c '3456 4567\\|4567 3456'": "1", "touch /x 2>/dev/null || echo ro": "ro",
		"touch /v/x && stat -c %g /v/x":                                     "3456",
		"grep -E 'NoNewPrivs|Seccomp:' /proc/self/status | tr -d '\\t\\n '": "NoNewPrivs:1Seccomp:2",
		"grep CapBnd /proc/self/status | tr -d '\\t'":                       "CapBnd:0000000000000400"} {
		out, err := it.try("exec", "-n", ns, "p", "--", "sh", "-c", cmd)
		if err != nil || out != want {
			t.Errorf("%s: %q, %v, want %q", cmd, out, err, want)
		}
	}
	eventually(t, "an image of root is refused", func() (bool, string) {
		p := getPod(t, ns, "root")
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError", fmt.Sprintf("%+v", p.Status)
	})
}

// TestGracefulEnd: hooks, a SIGTERM that is honoured, one that is not, within the grace.
func TestGracefulEnd(t *testing.T) {
	ns := space(t)
	out := fmt.Sprintf("%s/ends-%s", it.dir, ns)
	if err := os.MkdirAll(out, 0o777); err != nil {
		t.Fatal(err)
	}
	volume := "volumes: [{name: h, hostPath: {path: " + out + "}}]\n"
	mount := "volumeMounts: [{name: h, mountPath: /h}]\n"
	hooks := "lifecycle: {postStart: {exec: {command: [sh, -c, 'until [ -e /h/armed ]; do sleep 0.1; done; " +
		"echo hooked > /h/post']}}, preStop: {exec: {command: [sh, -c, 'echo pre >> /h/polite']}}}\n"
	polite := onePod("polite", "trap 'echo term >> /h/polite; exit 0' TERM; touch /h/armed; while :; do sleep 0.1; done", volume,
		mount+hooks)
	stubborn := onePod("stubborn", "trap '' TERM; while :; do sleep 0.1; done", volume, mount)
	apply(t, ns, strings.ReplaceAll(polite, "PeriodSeconds: 1", "PeriodSeconds: 3600")+strings.ReplaceAll(stubborn, "PeriodSeconds: 1",
		"PeriodSeconds: 4"))
	kubectl(t, "wait", "-n", ns, "pod/polite", "pod/stubborn", "--for=condition=Ready", "--timeout=240s")
	if text, err := os.ReadFile(out + "/post"); err != nil || string(text) != "hooked\n" {
		t.Errorf("the post-start hook left %q, %v", text, err)
	}
	kubectl(t, "delete", "pod", "-n", ns, "polite") // waits, and not for an hour
	if text, err := os.ReadFile(out + "/polite"); err != nil || string(text) != "pre\nterm\n" {
		t.Errorf("the pre-stop hook and the signal left %q, %v", text, err)
	}
	began := time.Now()
	kubectl(t, "delete", "pod", "-n", ns, "stubborn")
	if took := time.Since(began); took < 3500*time.Millisecond {
		t.Errorf("a stubborn pod with a grace of 4 s took %v to end", took)
	}
}

// TestResize gives a running container more and less, on both nodes: it sees it in its own cgroup, and is not started anew.
func TestResize(t *testing.T) {
	join(t)
	for _, n := range nodes {
		t.Run(n.name, func(t *testing.T) {
			ns := space(t)
			apply(t, ns, onePod("p", "sleep 3600", "nodeName: "+n.name,
				"resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 200m, memory: 128Mi}}"))
			kubectl(t, "wait", "-n", ns, "pod/p", "--for=condition=Ready", "--timeout=240s")
			for _, want := range []struct{ cpu, memory, quota, bytes string }{{"400m", "256Mi", "40000", "268435456"}, {"300m", "96Mi", "30000",
				"100663296"}} {
				kubectl(t, "patch", "pod", "-n", ns, "p", "--subresource=resize", "-p", fmt.Sprintf(
					`{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":%q,"memory":%q}}}]}}`, want.cpu, want.memory))
				eventually(t, "it has "+want.cpu, func() (bool, string) {
					out, err := it.try("exec", "-n", ns, "p", "--", "sh", "-c", "cd /sys/fs/cgroup; if [ -e cpu.max ]; "+
						"then cut -d' ' -f1 cpu.max; cat memory.max; else cat cpu/cpu.cfs_quota_us memory/memory.limit_in_bytes; fi")
					return err == nil && out == want.quota+"\n"+want.bytes, fmt.Sprint(out, err)
				})
				eventually(t, "its status says so", func() (bool, string) {
					p := getPod(t, ns, "p")
					s := p.Status.ContainerStatuses[0]
					for _, c := range p.Status.Conditions {
						if c.Type == corev1.PodResizeInProgress || c.Type == corev1.PodResizePending {
							return false, fmt.Sprintf("%+v", c)
						}
					}
					return s.Resources != nil && s.Resources.Limits.Cpu().String() == want.cpu, fmt.Sprintf("%+v", s)
				})
			}
			if s := getPod(t, ns, "p").Status.ContainerStatuses[0]; s.RestartCount != 0 {
				t.Errorf("it was restarted: %+v", s)
			}
		})
	}
}
