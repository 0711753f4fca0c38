package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// containers are the ways in which a container does not run for long, or at all.
func containers() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "RunsAsRoot", Of: of, See: container(runsAsRoot)},
		{Name: "SubPathFails", Of: of, See: container(subPathFails)},
		{Name: "ConfigMissing", Of: of, See: container(configMissing)},
		{Name: "ContainerRefused", Of: of, See: container(containerRefused)},
		{Name: "OutOfMemory", Of: of, See: container(outOfMemory)},
		{Name: "ContainerRefused", Of: of, See: container(neverBegan)},
		{Name: "InitCrash", Of: of, See: container(initCrash)},
		{Name: "EndsAtOnce", Of: of, See: container(endsAtOnce)},
		{Name: "CrashLoop", Of: of, See: container(crashLoop)},
		{Name: "HelperRuns", Of: of, See: container(helperRuns)},
		{Name: "ContainerEnded", Of: of, See: container(containerEnded)},
		{Name: "PodEvicted", Of: of, See: failedPod(podEvicted)},
		{Name: "PodFailed", Of: of, See: failedPod(podFailed)},
	}
}

var (
	missing  = pattern.New(`(configmap|secret) "([^"]+)" not found`)
	keyIsOff = pattern.New(`couldn't find key (\S+) in (ConfigMap|Secret) [^/\s]+/(\S+)`)
)

// runsAsRoot: the pod may not run as root, and the image does, or does not say that it does not.
func runsAsRoot(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if reason != "CreateContainerConfigError" || !strings.Contains(text, "runAsNonRoot") {
		return nil
	}
	f := &converge.Finding{Says: "can't start container " + c.Name +
		": it must not run as root, and the image does not say that it runs as somebody else", State: converge.Blocked,
		Error: general.TextOnly(text),
		Waits: l.Field("spec.containers[" + c.Name + "].securityContext"),
		Next:  converge.PersonDoes("gives it a user that is not root"),
		Advice: []string{retemplate(l, "set securityContext.runAsUser to a number above 0 in the pod template",
			ofContainer(&p.Spec, c.Name, `"securityContext":{"runAsUser":1000}`)), "or build the image with a numeric USER"}}
	if user := words.Between(text, "non-numeric user (", ")"); user != "" {
		f.Says += ": its user " + user + " is a name, of which the node can't tell whether it is root"
		f.Advice[0] = strings.Replace(f.Advice[0], "a number above 0", "the number that "+user+" has in the image", 1)
	}
	return f
}

var subPathOf = pattern.New(`subPath for volumeMount "([^"]+)"`)

// subPathFails: the part of a volume that a container mounts is not there, or can't be made.
func subPathFails(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	m := subPathOf.FindStringSubmatch(text)
	if reason != "CreateContainerConfigError" || m == nil {
		return nil
	}
	return &converge.Finding{Says: "can't start container " + c.Name + ": the subPath that it mounts of volume " + m[1] +
		" is not there or can't be made", State: converge.BackingOff, Error: general.TextOnly(text),
		Waits: l.Field("spec.containers[" + c.Name + "].volumeMounts[" + m[1] + "].subPath"),
		Next:  converge.Does(converge.AgentOf(p), "tries again"),
		Advice: []string{
			"look whether the volume may be written and the path leads out of it by a link; of a ConfigMap or Secret it must be a key"}}
}

// configMissing: the environment comes from something that is not there, or lacks the key.
func configMissing(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if reason != "CreateContainerConfigError" {
		return nil
	}
	f := &converge.Finding{Says: "can't start container " + c.Name + ": " + text, State: converge.Blocked, Error: general.TextOnly(text),
		Waits:  l.Field("spec.containers[" + c.Name + "].env"),
		Next:   converge.Does(converge.AgentOf(p), "starts the container when what it needs is there"),
		Advice: []string{"correct what container " + c.Name + " takes its environment from"}}
	kindOf := func(word string) resource.Kind {
		if word == "secret" {
			return kinds.Secrets
		}
		return kinds.ConfigMaps
	}
	if m := keyIsOff.FindStringSubmatch(text); m != nil {
		what := strings.ToLower(m[2])
		f.Says = fmt.Sprintf("can't start container %s: the %s %s has no key %s", c.Name, what, m[3], m[1])
		f.Waits, f.Advice = converge.On("Field", general.Namespaced(l, kindOf(what), m[3]), "data."+m[1]),
			[]string{"add the key " + m[1] + ": kubectl edit " + what + " " + m[3] + " -n " + p.Namespace,
				"or correct the key that container " + c.Name + " asks for"}
	}
	if m := missing.FindStringSubmatch(text); m != nil {
		k := kindOf(m[1])
		f.Says = fmt.Sprintf("can't start container %s: the %s %s does not exist", c.Name, m[1], m[2])
		f.Waits, f.Advice = converge.On("Object", general.Namespaced(l, k, m[2]), ""),
			[]string{"create " + m[1] + "/" + m[2] + " in namespace " + p.Namespace + makeData(p, m[1], m[2])}
	}
	return f
}

func containerRefused(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, text := general.WaitsFor(c)
	if reason != "CreateContainerError" && reason != "RunContainerError" && reason != "PostStartHookError" {
		return nil
	}
	f := &converge.Finding{Says: "can't start container " + c.Name + ": " + text, State: converge.BackingOff, Error: general.TextOnly(text),
		Next:   converge.Does(converge.AgentOf(p), "tries again"),
		Advice: []string{"check the command, the security context and the mounts of container " + c.Name}}
	if reason == "PostStartHookError" {
		f.Says = "runs container " + c.Name + " again and again: its postStart hook fails: " + text
		f.Advice = []string{"correct spec.containers[" + c.Name + "].lifecycle.postStart: the container is killed when it fails",
			"read its log: kubectl logs --previous " + p.Name + " -c " + c.Name + " -n " + p.Namespace}
	}
	cannotStart(l, f, p, c.Name, text)
	return f
}

// cannotStart words what the runtime says of a container that it can't start, where that is known.
func cannotStart(l *converge.Look, f *converge.Finding, p *corev1.Pod, container, text string) {
	s, ok := words.Meaning(unstartable, text)
	if !ok {
		return
	}
	f.Says, f.Advice = "can't start container "+container+": "+s.Words(), []string{s.Advice()}
	if strings.HasSuffix(s.Advice(), "use type: RuntimeDefault") {
		f.Advice = append(f.Advice, profiled(l, p, container, strings.HasPrefix(s.Mark(), "seccomp")))
	}
	if key := otherSubPath(l, p, container); key != "" && strings.HasPrefix(s.Advice(), "mount a single file") {
		f.Advice = append([]string{key}, f.Advice...)
	}
	m := executed.FindStringSubmatch(text)
	if m == nil || !strings.HasPrefix(s.Mark(), "exec") {
		return
	}
	switch f.Says += ": " + m[1]; {
	case strings.HasSuffix(s.Mark(), "denied"):
		f.Advice[0] = "let " + m[1] + " be executable in the image (RUN chmod +x " + m[1] + "), or run the container as a user who may execute it"
		if other := otherProgram(l, p, container, text); other != "" {
			f.Advice = append(f.Advice, "or "+other)
		}
	case strings.HasPrefix(s.Words(), "the image has no"):
		f.Advice[0] = edited(l, s.Advice())
		if other := otherProgram(l, p, container, text); other != "" {
			f.Advice = append([]string{other}, f.Advice...)
		}
	case strings.HasPrefix(s.Mark(), "exec format"):
		f.Advice = append(onPlatform(l, p), f.Advice...)
	}
}

// profiled advises to have a container, or its pod, where that names the profile, confined by the one that runtimes bring.
func profiled(l *converge.Look, p *corev1.Pod, container string, seccomp bool) string {
	part := `"securityContext":{"appArmorProfile":{"type":"RuntimeDefault","localhostProfile":null}}`
	c := podspec.ContainerNamed(&p.Spec, container)
	own := c != nil && c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil
	if seccomp {
		part = strings.Replace(part, "appArmorProfile", "seccompProfile", 1)
		own = c != nil && c.SecurityContext != nil && c.SecurityContext.SeccompProfile != nil
	}
	if own {
		return retemplate(l, "or take the runtime's own profile", ofContainer(&p.Spec, container, part))
	}
	return retemplate(l, "or take the runtime's own profile", "{"+part+"}")
}

// executed finds the program that could not be run.
var executed = pattern.New(`exec: \\?"([^"\\]+)\\?"`)

// neverBegan: the container was made and its program could not be run. It did not crash, and has no log.
func neverBegan(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	t := general.Died(c)
	if t == nil || c.Ready || p.Status.Phase == corev1.PodFailed || t.Reason != "StartError" && t.Reason != "ContainerCannotRun" {
		return nil
	}
	f := &converge.Finding{Says: "can't start container " + c.Name + ": " + words.OneLine(t.Message), State: converge.BackingOff,
		Error:  general.TextOnly(t.Message),
		Waits:  l.Field("spec.containers[" + c.Name + "].command"),
		Next:   converge.At(again(c), converge.AgentOf(p), "starts container %s again", c.Name),
		Advice: []string{"check the command, the security context and the mounts of container " + c.Name}}
	cannotStart(l, f, p, c.Name, t.Message)
	return f
}

// unstartable words what runtimes say of commands that can't be run.
var unstartable = []words.Saying{
	{"Cwd must be an absolute path", "its workingDir is no absolute path", "correct workingDir of the container: it begins with /"},
	{"nvidia-container-cli", "the node's NVIDIA driver can't be used",
		"run nvidia-smi on the node: load the driver anew, or start the node anew if driver and library differ"},
	{"seccomp profile", "its node does not have the seccomp profile that it names",
		"put the file below /var/lib/kubelet/seccomp on the node, or use type: RuntimeDefault"},
	{"apparmor profile not found", "its node has not loaded the AppArmor profile that it names",
		"load it on the node (apparmor_parser), or use type: RuntimeDefault"},
	{"Are you trying to mount a directory onto a file",
		"a volume's directory is mounted over a file of the image, or a file over a directory",
		"mount a single file of a volume by its key: subPath, with a mountPath that ends in the file's name"},
	{"to rootfs*not a directory", "a volume's directory is mounted over a file of the image, or a file over a directory",
		"mount a single file of a volume by its key: subPath, with a mountPath that ends in the file's name"},
	{"no command specified", "neither the image nor the pod says what to run", "give the container a command"},
	{"is reserved for", "the runtime still has the container that it made before, and has not let go of its name",
		"it mends itself mostly; if not, the node's disk or runtime is slow or stuck: restart the runtime on the node"},
	{"OCI options: stat /dev/*no such file", "its node lacks a device that it asks for",
		"have it on nodes that have the device, or load the kernel's module for it there"},
	{"unable to apply caps*not permitted", "it asks for capabilities that its runtime may not give",
		"leave them out of securityContext.capabilities.add"},
	{"exec format error", "its program is not made for the node's platform",
		"build the image for the node's platform, or have the pod on other nodes: nodeSelector: {kubernetes.io/arch: …}"},
	{"executable file not found", "the image has no such command",
		"correct the container's command; what the image has is what it was built with"},
	{"exec*no such file or directory", "the image has no such command",
		"correct the container's command; what the image has is what it was built with"},
	{"exec*permission denied", "its command may not be executed",
		"let the file be executable in the image, or run the container as a user who may execute it"},
}

// again is the time at which a container that crashed is started anew: the pause doubles from 10 s to 5 minutes.
func again(c *corev1.ContainerStatus) time.Time {
	t := c.LastTerminationState.Terminated
	if t == nil {
		t = c.State.Terminated
	}
	if t == nil || t.FinishedAt.IsZero() || c.RestartCount < 1 {
		return time.Time{}
	}
	return t.FinishedAt.Add(min(10*time.Second<<min(c.RestartCount-1, 5), 5*time.Minute))
}

func outOfMemory(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	t := general.Died(c)
	if t == nil || t.Reason != "OOMKilled" || c.Ready {
		return nil
	}
	limit := "its node had left (it has no limit of its own)"
	advice := "give container " + c.Name +
		" a memory request that it can live with, so that it gets a node with room: kubectl describe node " +
		p.Spec.NodeName
	if q, whose := memoryLimit(p, c.Name); q != "" {
		limit, advice = whose+"limit of "+q, moreMemory(l, p, c.Name)
		if by := limitedBy(l, p, c.Name, corev1.ResourceMemory); by != "" {
			limit += ", which is the default of limitrange/" + by + ","
		}
		if whose != "its " {
			advice = "raise spec.resources.limits.memory of the pod, which all its containers share, or find out which needs so much"
		}
	}
	return &converge.Finding{Says: fmt.Sprintf("crashes: container %s needs more memory than %s and was killed %s", c.Name, limit,
		times(c.RestartCount)), State: converge.BackingOff,
		Waits: l.Field("spec.containers[" + c.Name + "].resources.limits.memory"),
		Next:  converge.At(again(c), converge.AgentOf(p), "starts container %s again", c.Name),
		Error: general.TextOnly("OOMKilled"), Advice: []string{advice}}
}

// memoryLimit returns the memory limit of a container, or of its pod, and whose it is; "" if there is none.
func memoryLimit(p *corev1.Pod, name string) (limit, whose string) {
	if c := podspec.ContainerNamed(&p.Spec, name); c != nil {
		if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			return q.String(), "its "
		}
	}
	if r := p.Spec.Resources; r != nil {
		if q, ok := r.Limits[corev1.ResourceMemory]; ok {
			return q.String(), "its pod's "
		}
	}
	return "", ""
}

func times(n int32) string {
	switch n {
	case 0, 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func initCrash(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	isInit := false
	for i := range p.Status.InitContainerStatuses {
		isInit = isInit || &p.Status.InitContainerStatuses[i] == c
	}
	t := general.Died(c)
	if !isInit || t == nil || c.Ready || c.State.Running != nil {
		return nil
	}
	what := "init container"
	if sidecar(p, c.Name) {
		what = "sidecar"
	}
	return advise(l, &converge.Finding{Says: fmt.Sprintf("does not start: its %s %s %s (%s)", what, c.Name, general.Exit(t),
		times(max(c.RestartCount, 1))),
		State: converge.BackingOff,
		Next:  converge.At(again(c), converge.AgentOf(p), "starts %s %s again", what, c.Name), Error: general.TextOnly(general.Exit(t)),
		Advice: []string{"read its log: kubectl logs " + p.Name + " -c " + c.Name + " -n " + p.Namespace}}, p, c.Name, t)
}

// endsAtOnce: a container ends, with success, and is started again and again, since a pod of this kind is to run for ever.
func endsAtOnce(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, _ := general.WaitsFor(c)
	t := general.Died(c)
	if t == nil || t.ExitCode != 0 || reason != general.CrashLoopBackOff {
		return nil
	}
	return &converge.Finding{Says: fmt.Sprintf("does not keep running: container %s ends with success (%s), and is to run for ever", c.Name,
		times(max(c.RestartCount, 1))), State: converge.BackingOff,
		Waits: l.Field("spec.restartPolicy"), Next: converge.At(again(c), converge.AgentOf(p),
			"starts container %s again", c.Name),
		Advice: []string{"give it a command that does not end; a shell without a terminal ends at once",
			"or make it a Job, if it is to end"}}
}

func crashLoop(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	reason, _ := general.WaitsFor(c)
	t := general.Died(c)
	if t == nil || reason != general.CrashLoopBackOff &&
		(c.State.Running != nil || c.RestartCount == 0 || p.Spec.RestartPolicy == corev1.RestartPolicyNever) {
		return nil
	}
	return advise(l, &converge.Finding{Says: fmt.Sprintf("crashes: container %s %s (%s)", c.Name, general.Exit(t),
		times(max(c.RestartCount, 1))), State: converge.BackingOff,
		Next: converge.At(again(c), converge.AgentOf(p), "starts container %s again", c.Name), Error: general.TextOnly(general.Exit(t)),
		Advice: []string{"read its last words: kubectl logs --previous " + p.Name + " -c " + c.Name + " -n " + p.Namespace}}, p, c.Name, t)
}

// helperRuns: what a job's pod was made for is done, and a container beside it does not end.
func helperRuns(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || owner.Kind != "Job" || c.State.Running == nil || sidecar(p, c.Name) || p.Status.Phase != corev1.PodRunning {
		return nil
	}
	done := ""
	for i := range p.Status.ContainerStatuses {
		switch t := p.Status.ContainerStatuses[i].State.Terminated; {
		case t == nil:
		case t.ExitCode != 0:
			return nil
		default:
			done = p.Status.ContainerStatuses[i].Name
		}
	}
	if done == "" {
		return nil
	}
	return &converge.Finding{Says: "has done its work in container " + done + ", and container " + c.Name + " does not end",
		State: converge.Waiting,
		Waits: l.Field("status.containerStatuses[" + c.Name + "].state"),
		Next:  converge.Does(converge.AgentOf(p), "ends the pod when container %s ends", c.Name),
		Advice: []string{"make " + c.Name + " a sidecar: an init container with restartPolicy: Always is stopped when the others are done",
			"to let this pod go: have " + c.Name + " end, by its own means"}}
}

// containerEnded: a container has ended and will not be started again, so that the pod never becomes ready.
func containerEnded(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
	t := c.State.Terminated
	if t == nil || p.Status.Phase != corev1.PodRunning || p.Spec.RestartPolicy == corev1.RestartPolicyAlways || p.Spec.RestartPolicy == "" {
		return nil
	}
	for i := range p.Status.InitContainerStatuses {
		if &p.Status.InitContainerStatuses[i] == c {
			return nil
		}
	}
	return &converge.Finding{Says: fmt.Sprintf("is not ready because container %s has ended while others run (%s)", c.Name,
		general.Exit(t)),
		State: converge.Waiting,
		Next:  converge.Does(converge.AgentOf(p), "ends the pod when its other containers end")}
}

func failedPod(see func(l *converge.Look, p *corev1.Pod) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		if p := l.Obj.(*corev1.Pod); p.Status.Phase == corev1.PodFailed {
			return see(l, p)
		}
		return nil
	}
}

func podEvicted(l *converge.Look, p *corev1.Pod) *converge.Finding {
	says := fmt.Sprintf("was ended by the node: %s: %s", p.Status.Reason, strings.TrimSpace(p.Status.Message))
	target := general.PodCondition(p, corev1.DisruptionTarget)
	if p.Status.Reason == "" || p.Status.Message == "" && target != nil {
		if target == nil || target.Status != corev1.ConditionTrue {
			return nil
		}
		s, _ := words.Meaning(disruptions, target.Reason)
		says = "was ended: " + cmp.Or(s.Words(), target.Reason) + " (" + target.Message + ")"
	}
	again := startedAnew(l, p)
	switch rest, refused := strings.CutPrefix(p.Status.Message, "Pod was rejected: "); {
	case refused:
		says = fmt.Sprintf("was refused by its node %s: %s: %s", p.Spec.NodeName, p.Status.Reason, strings.TrimSpace(rest))
	case p.Status.Reason == "DeadlineExceeded" && p.Spec.ActiveDeadlineSeconds != nil:
		says = fmt.Sprintf("was ended: it ran longer than its activeDeadlineSeconds of %d", *p.Spec.ActiveDeadlineSeconds)
		again = retemplate(l, "give it longer, twice that, say", fmt.Sprintf(`{"activeDeadlineSeconds":%d}`, 2**p.Spec.ActiveDeadlineSeconds))
	case p.Status.Reason == "Terminated" && strings.Contains(p.Status.Message, "node shutdown"):
		says = "was ended because its node " + p.Spec.NodeName + " was shut down"
	}
	f := &converge.Finding{Says: says, Owner: converge.Person, State: converge.Failed,
		Next: converge.PersonDoes("deletes the pod, or makes it anew")}
	if s, ok := words.Meaning(gone, p.Status.Message); ok {
		f.Advice = []string{strings.ReplaceAll(s.Advice(), "{}", p.Spec.NodeName)}
	}
	f.Advice = append(f.Advice, moreStorage(l, p)...)
	if !slices.ContainsFunc(f.Advice, func(a string) bool { return strings.Contains(a, " replace --force ") }) {
		f.Advice = append(f.Advice, again)
	}
	return f
}

// disruptions words the reasons of the condition DisruptionTarget.
var disruptions = []words.Saying{{"PreemptionByScheduler", "the scheduler made room for a pod of higher priority", ""},
	{"DeletionByTaintManager", "its node got a taint of effect NoExecute that it does not tolerate", ""},
	{"EvictionByEvictionAPI", "somebody had it evicted, as a drain does", ""}, {"DeletionByPodGC", "its node is gone", ""},
	{"TerminationByKubelet", "its node ended it", ""}}

func podFailed(l *converge.Look, p *corev1.Pod) *converge.Finding {
	says, again := "failed", startedAnew(l, p)
	for i := range p.Status.ContainerStatuses {
		t := p.Status.ContainerStatuses[i].State.Terminated
		if t != nil && t.ExitCode != 0 && t.Reason == "StartError" {
			f := &converge.Finding{Says: "can't start container " + p.Status.ContainerStatuses[i].Name + ": " + words.OneLine(t.Message)}
			cannotStart(l, f, p, p.Status.ContainerStatuses[i].Name, t.Message)
			again = unstarted
			says = fmt.Sprintf("failed: %s, and restartPolicy is %s", strings.Replace(f.Says, "can't start", "its node could not start", 1),
				p.Spec.RestartPolicy)
		} else if t != nil && t.ExitCode != 0 {
			says = fmt.Sprintf("failed: container %s %s, and restartPolicy is %s", p.Status.ContainerStatuses[i].Name, general.Exit(t),
				p.Spec.RestartPolicy)
		}
	}
	return &converge.Finding{Says: says, Owner: converge.Person, State: converge.Failed,
		Next:   converge.PersonDoes("deletes the pod, or makes it anew"),
		Advice: []string{"read its log: kubectl logs " + p.Name + " -n " + p.Namespace, again}}
}
