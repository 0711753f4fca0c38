package converge

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// resizes are the ways in which a pod that runs does not get the resources that its spec now asks for.
func resizes() []Situation {
	return []Situation{{"ResizePending", []resource.Kind{kinds.Pods}, resizePending}}
}

// unsized is the condition that tells that a pod does not have its size, and why.
func unsized(p *corev1.Pod) *corev1.PodCondition {
	if c := podCondition(p, corev1.PodResizePending); c != nil && c.Status == corev1.ConditionTrue {
		return c
	}
	if c := podCondition(p, corev1.PodResizeInProgress); c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonError {
		return c
	}
	return nil
}

func resizeHealth(p *corev1.Pod) Health {
	c := unsized(p)
	if c == nil {
		return Health{}
	}
	return Health{Says: "does not have the resources that its spec asks for", Want: "spec.containers[].resources in force",
		Have: fmt.Sprintf("status.conditions[%s]=%s", c.Type, c.Reason), Since: c.LastTransitionTime.Time}
}

func resizePending(l *look) *Finding {
	p := l.obj.(*corev1.Pod)
	c := unsized(p)
	if c == nil || p.DeletionTimestamp != nil {
		return nil
	}
	text := oneLine(c.Message)
	f := &Finding{Owner: agentOf(p), State: Waiting, Error: textOnly(c.Message),
		Waits:  on("Field", refTo(kinds.Pods, p), fmt.Sprintf("status.conditions[%s]", c.Type)),
		Advice: []string{"ask for less: kubectl edit pod " + p.Name + " -n " + p.Namespace + " --subresource=resize"}}
	switch c.Reason {
	case corev1.PodReasonInfeasible:
		f.Says, f.State, f.Owner = "can't be resized on its node "+p.Spec.NodeName+": "+text, Blocked, person
		f.Next = does(person, "asks for what the node has, or has the pod made anew on a larger node")
	case corev1.PodReasonDeferred:
		f.Says = "waits to be resized until node " + p.Spec.NodeName + " has room: " + text
		f.Next = does(agentOf(p), "resizes it when other pods have left or asked for less")
	default:
		f.Says, f.State, f.Next = "can't be resized: "+text, BackingOff, does(agentOf(p), "tries again")
	}
	return f
}

// misported says of a probe that it asks a port that its container does not have: by a name that no port has, or by a number beside those
// that are declared. That is a guess where the number is concerned, as ports need not be declared.
func misported(p *corev1.Pod, container string, probe *corev1.Probe) (says, advice string) {
	var at = probe.TCPSocket
	port := ""
	switch {
	case at != nil:
		port = at.Port.String()
	case probe.HTTPGet != nil:
		port = probe.HTTPGet.Port.String()
	case probe.GRPC != nil:
		port = fmt.Sprint(probe.GRPC.Port)
	}
	var has []string
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for i := range c.Ports {
			if c.Name == container {
				has = append(has, strings.TrimSuffix(fmt.Sprintf("%d (%s", c.Ports[i].ContainerPort, c.Ports[i].Name), " (")+
					strings.Repeat(")", min(len(c.Ports[i].Name), 1)))
			}
		}
	}
	number := port == "" || port[0] >= '0' && port[0] <= '9'
	if port == "" || number && len(has) == 0 || slices.ContainsFunc(has, func(s string) bool {
		return strings.HasPrefix(s+" ", port+" ") || strings.HasSuffix(s, "("+port+")")
	}) {
		return "", ""
	}
	if len(has) == 0 {
		return "; container " + container + " has no port of the name " + port, "name a port of the container " + port +
			", or give the probe a number"
	}
	return "; container " + container + " declares port " + list(has, 3) + ", not " + port,
		"have the probe ask port " + has[0] + ", if that is meant"
}

// slowly says that a probe failed since its answer took too long.
func slowly(e *corev1.Event) bool {
	low := strings.ToLower(e.Message)
	return strings.Contains(low, "timed out") || strings.Contains(low, "timeout") || strings.Contains(low, "deadline exceeded")
}
