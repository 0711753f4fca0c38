package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// probes are the ways in which a pod runs and is not ready.
func probes() []converge.Situation {
	of := []resource.Kind{kinds.Pods}
	return []converge.Situation{
		{Name: "StartupProbeFails", Of: of, See: container(probeFails("Startup",
			func(c *corev1.Container) *corev1.Probe { return c.StartupProbe }))},
		{Name: "ReadinessProbeFails", Of: of, See: container(probeFails("Readiness",
			func(c *corev1.Container) *corev1.Probe { return c.ReadinessProbe }))},
		{Name: "ReadinessGate", Of: of, See: readinessGate},
	}
}

// probeFails makes the situation of one sort of probe: a container runs and the probe has not passed. What the program answered stands in
// the agent's event alone. Where no container port is the one that is asked, that is the likely reason.
func probeFails(name string, of func(*corev1.Container) *corev1.Probe) func(l *converge.Look, p *corev1.Pod,
	c *corev1.ContainerStatus) *converge.Finding {
	return func(l *converge.Look, p *corev1.Pod, c *corev1.ContainerStatus) *converge.Finding {
		if c.Ready || c.State.Running == nil || name == "Readiness" && !ptr.Deref(c.Started, true) {
			return nil
		}
		probe := probeOf(p, c.Name, of)
		if probe == nil || name == "Startup" && ptr.Deref(c.Started, false) {
			return nil
		}
		word := strings.ToLower(name)
		f := &converge.Finding{Says: fmt.Sprintf("is not ready: the %s probe of container %s (%s) has not passed", word, c.Name,
			target(probe)),
			State: converge.Waiting,
			Waits: l.Field(fmt.Sprintf("status.containerStatuses[%s].ready", c.Name)),
			Next:  converge.Does(converge.AgentOf(p), "asks again every %d s", max(probe.PeriodSeconds, 1)),
			Advice: []string{"find out why the application does not answer its probe: kubectl logs " + p.Name + " -c " + c.Name + " -n " +
				p.Namespace}}
		for _, s := range resource.Owned(l.Read, kinds.StatefulSets, p) { // it leads others, as of a LeaderWorkerSet, and waits for them
			if !l.Health(kinds.StatefulSets, s).Converged() {
				f.Below = append(f.Below, converge.RefTo(kinds.StatefulSets, s))
			}
		}
		if e := l.Warning(p.UID, "Unhealthy"); e != nil && strings.HasPrefix(e.Message, name+" probe") {
			f.Error = general.EventFailure(e)
			f.Says = fmt.Sprintf("is not ready: the %s probe of container %s (%s) fails: %s", word, c.Name, target(probe),
				general.LastLine(e.Message[strings.Index(e.Message, ":")+1:]))
			answerOf(l, f, c.Name, word, e.Message)
			if other := behind(p, c.Name, e.Message); other != "" {
				f.Says += "; that is a port of container " + other
				f.Advice = []string{"see whether container " + other + " listens at that port: kubectl logs " + p.Name + " -c " + other +
					" -n " + p.Namespace}
			}
			if slowly(e) {
				f.Advice = append(f.Advice, patient(l, p, c.Name, word, probe))
			}
		}
		if until := c.State.Running.StartedAt.Add(time.Duration(probe.InitialDelaySeconds+max(probe.PeriodSeconds, 1)*
			max(probe.FailureThreshold, 1)) * time.Second); name == "Startup" && until.After(l.Now) {
			f.State, f.Next = converge.Progressing, converge.At(until, converge.AgentOf(p),
				"asks every %d s, and starts the container anew if it has not passed by then",
				max(probe.PeriodSeconds, 1))
		}
		if says, advice := misported(l, p, c.Name, name, probe); says != "" && (f.Error == nil || strings.Contains(f.Error.Message, "refused")) {
			f.Says += says
			f.Advice = append([]string{advice}, f.Advice...)
		}
		untrusting(l, f, p, c.Name)
		needing(l, f, p, c.Name)
		return f
	}
}

// patient advises to give a program that is slow to answer its probe more time for that.
func patient(l *converge.Look, p *corev1.Pod, container, word string, probe *corev1.Probe) string {
	has := max(probe.TimeoutSeconds, 1)
	return retemplate(l, fmt.Sprintf("if it is only slow to answer, raise %sProbe.timeoutSeconds, which is %d", word, has),
		ofContainer(&p.Spec, container, fmt.Sprintf(`"%sProbe":{"timeoutSeconds":%d}`, word, has*5)))
}

// answerOf tells what a program's answer to a probe means, and what to correct then.
func answerOf(l *converge.Look, f *converge.Finding, container, word, message string) bool {
	s, ok := words.Meaning(answers, message)
	if ok {
		f.Says += " (" + s.Words() + ")"
		advice := edited(l, strings.ReplaceAll(s.Advice(), "{}", word))
		if _, scheme, is := strings.Cut(s.Advice(), "{}Probe.httpGet.scheme: "); is {
			if patch := retemplate(l, "have the probe speak "+scheme, ofContainer(&l.Obj.(*corev1.Pod).Spec, container,
				`"`+word+`Probe":{"httpGet":{"scheme":"`+scheme+`"}}`)); strings.Contains(patch, "kubectl patch ") {
				advice = patch
			}
		}
		f.Advice = append([]string{advice}, append(openPort(l, container, word), f.Advice...)...)
	}
	return ok
}

// untrusting tells what keeps metrics-server from being ready far more often than anything else: it says 500 while it has metrics of no
// node.
func untrusting(l *converge.Look, f *converge.Finding, p *corev1.Pod, container string) {
	const flag = "--kubelet-insecure-tls"
	c := podspec.ContainerNamed(&p.Spec, container)
	if c == nil || !strings.Contains(c.Image, "metrics-server/metrics-server") || slices.Contains(c.Args, flag) || f.Error == nil ||
		!strings.Contains(f.Error.Message, "statuscode: 500") {
		return
	}
	top, ok := changeable(l.World, l.Kind, l.Obj)
	at := slices.IndexFunc(p.Spec.Containers, func(o corev1.Container) bool { return o.Name == container })
	if ok && at >= 0 && len(c.Args) > 0 {
		f.Says += "; it is not ready while it has metrics of no node, as where it does not trust the certificates of their agents"
		f.Advice = append([]string{"if those sign their own, let it take them: " + converge.Patched(top, converge.Add(converge.Pointer("spec",
			"template", "spec", "containers", strconv.Itoa(at), "args", "-"), flag))}, f.Advice...)
	}
}

// openPort advises to ask no more of a container than whether its port takes connections, where what its probe asks is not answered
// well.
func openPort(l *converge.Look, container, word string) []string {
	c := podspec.ContainerNamed(&l.Obj.(*corev1.Pod).Spec, container)
	if c == nil {
		return nil
	}
	of := map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe, "startup": c.StartupProbe}
	probe, port, how := of[word], "", "exec"
	switch {
	case probe == nil:
		return nil
	case probe.HTTPGet != nil:
		port, how = converge.JSON(probe.HTTPGet.Port), "httpGet"
	case len(c.Ports) > 0:
		port = fmt.Sprint(c.Ports[0].ContainerPort)
	default:
		return nil
	}
	advice := []string{retemplate(l, "or ask only whether its port takes connections", ofContainer(&l.Obj.(*corev1.Pod).Spec, container,
		`"`+word+`Probe":{"`+how+`":null,"tcpSocket":{"port":`+port+`}}`))}
	for _, name := range []string{"readiness", "liveness", "startup"} { // that one passes, mostly
		if other := of[name]; how == "httpGet" && other != nil && other.HTTPGet != nil && other.HTTPGet.Path != probe.HTTPGet.Path {
			return append([]string{retemplate(l, "or ask for what its "+name+" probe asks for", ofContainer(&l.Obj.(*corev1.Pod).Spec, container,
				`"`+word+`Probe":{"httpGet":{"path":`+converge.JSON(other.HTTPGet.Path)+"}}"))}, advice...)
		}
	}
	return advice
}

// near finds the port of the pod's own at which something was not reached.
var near = pattern.New(`(?:127\.0\.0\.1|\[::1\]|localhost):(\d+): connect: connection refused`)

// behind names the other container of the pod that a proxy in it did not reach, as Knative's asks for the program's port; "": it is none.
func behind(p *corev1.Pod, name, message string) string {
	m := near.FindStringSubmatch(message)
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		if m != nil && c.Name != name && slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool {
			return fmt.Sprint(port.ContainerPort) == m[1]
		}) {
			return c.Name
		}
	}
	return ""
}

// answers words what node agents say of a probe where the program runs, and the probe may be wrong.
var answers = []words.Saying{
	{"statuscode: 404", "it runs, and has no such path", "correct {}Probe.httpGet.path"},
	{"statuscode: 401", "it runs, and wants credentials", "ask for a path that needs none, or give {}Probe.httpGet.httpHeaders"},
	{"statuscode: 403", "it runs, and wants credentials", "ask for a path that needs none, or give {}Probe.httpGet.httpHeaders"},
	{"statuscode: 400", "it runs, and perhaps speaks TLS at that port", "if it does: {}Probe.httpGet.scheme: HTTPS"},
	{"HTTP response to HTTPS client", "it runs, and speaks no TLS at that port", "{}Probe.httpGet.scheme: HTTP"},
	{"malformed HTTP response", "it runs, and perhaps speaks TLS at that port", "if it does: {}Probe.httpGet.scheme: HTTPS"},
	{"command not found", "the image lacks a program that the probe runs", "have the image bring that program, or let {}Probe ask otherwise"},
	{"executable file not found", "the image has no such command", "correct {}Probe.exec.command"},
	{"exec*no such file or directory", "the image has no such command", "correct {}Probe.exec.command"},
}

func probeOf(p *corev1.Pod, name string, of func(*corev1.Container) *corev1.Probe) *corev1.Probe {
	if c := podspec.ContainerNamed(&p.Spec, name); c != nil { // a sidecar is asked too
		return of(c)
	}
	return nil
}

// target words what a probe asks.
func target(p *corev1.Probe) string {
	switch {
	case p.HTTPGet != nil:
		return fmt.Sprintf("GET %s at port %s", cmp.Or(p.HTTPGet.Path, "/"), p.HTTPGet.Port.String())
	case p.TCPSocket != nil:
		return "TCP port " + p.TCPSocket.Port.String()
	case p.GRPC != nil:
		return fmt.Sprintf("gRPC at port %d", p.GRPC.Port)
	case p.Exec != nil:
		return "command " + strings.Join(p.Exec.Command, " ")
	}
	return "nothing"
}

// readinessGate: the containers are ready, and somebody else has to say that the pod is.
func readinessGate(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	if len(p.Spec.ReadinessGates) == 0 || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
		return nil
	}
	for _, g := range p.Spec.ReadinessGates {
		c := general.PodCondition(p, g.ConditionType)
		if c != nil && c.Status == corev1.ConditionTrue {
			continue
		}
		who, says := "who sets the condition "+string(g.ConditionType), " is not set"
		if c != nil {
			says = strings.TrimSuffix(" is "+string(c.Status)+": "+cmp.Or(words.OneLine(c.Message), c.Reason), ": ")
		}
		advice := "look whether the controller that sets " + string(g.ConditionType) + " runs"
		if c != nil && c.Message != "" {
			advice = "see to what it says; who asks from outside may ask another path or port than the pod's own probe"
		}
		return &converge.Finding{Says: "is not ready: its readiness gate " + string(g.ConditionType) + says, Owner: who,
			State:  converge.Blocked,
			Waits:  l.Field(fmt.Sprintf("status.conditions[%s]", g.ConditionType)),
			Next:   converge.Does(who, "sets it to True"),
			Advice: []string{advice}, NoCommand: "a controller of its own sets it, by what that finds: nothing of the pod does"}
	}
	return nil
}
