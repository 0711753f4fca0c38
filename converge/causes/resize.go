package causes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/health"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/resource"
)

// resizes are the ways in which a pod that runs does not get the resources that its spec now asks for.
func resizes() []converge.Situation {
	return []converge.Situation{{Name: "ResizePending", Of: []resource.Kind{kinds.Pods}, See: resizePending}}
}

func resizePending(l *converge.Look) *converge.Finding {
	p := l.Obj.(*corev1.Pod)
	c := health.Unsized(p)
	if c == nil || p.DeletionTimestamp != nil {
		return nil
	}
	text := words.OneLine(c.Message)
	f := &converge.Finding{Owner: converge.AgentOf(p), State: converge.Waiting, Error: general.TextOnly(c.Message),
		Waits:  l.Field(fmt.Sprintf("status.conditions[%s]", c.Type)),
		Advice: []string{"ask for less: kubectl edit pod " + p.Name + " -n " + p.Namespace + " --subresource=resize"}}
	switch c.Reason {
	case corev1.PodReasonInfeasible:
		f.Says, f.State, f.Owner = "can't be resized on its node "+p.Spec.NodeName+": "+text, converge.Blocked, converge.Person
		f.Next = converge.PersonDoes("asks for what the node has, or has the pod made anew on a larger node")
		resized(l, f, p, text)
	case corev1.PodReasonDeferred:
		f.Says = "waits to be resized until node " + p.Spec.NodeName + " has room: " + text
		f.Next = converge.Does(converge.AgentOf(p), "resizes it when other pods have left or asked for less")
	default:
		f.Says, f.State, f.Next = "can't be resized: "+text, converge.BackingOff, converge.Does(converge.AgentOf(p), "tries again")
	}
	return f
}

// tooLarge finds which resource a node has less of than a pod asks for, and how much it has, in words of its agent.
var tooLarge = pattern.New(`enough capacity: (cpu|memory), requested: \d+, capacity: (\d+)`)

// resized advises what a pod that can't be resized may ask for on its node: what that has, without what others there ask for.
func resized(l *converge.Look, f *converge.Finding, p *corev1.Pod, text string) {
	m, n := tooLarge.FindStringSubmatch(text), resource.Get(l.Read, kinds.Nodes, "", p.Spec.NodeName)
	if m == nil || n == nil || !l.Sees(kinds.Pods, "") {
		return
	}
	name := corev1.ResourceName(m[1])
	free, there := n.Status.Allocatable[name].DeepCopy(), thereOn(l.World, n.Name)
	if name == corev1.ResourceCPU {
		free.Sub(there.cpu)
	} else {
		free.Sub(there.memory)
	}
	free.Add(asksFor(p, name))
	which, amount := largestPart(p, name, free)
	if which == "" {
		return
	}
	f.Says += "; " + whole(name, free) + " is there for it"
	f.Advice = []string{"have it ask for what is there: kubectl patch pod " + p.Name + " -n " + p.Namespace + " --subresource=resize -p '" +
		ofContainer(&p.Spec, which, `"resources":{"requests":{"`+m[1]+`":"`+whole(name, amount)+`"}}`) + "'"}
	f.Advice[0] = strings.Replace(f.Advice[0], "-p '", `-p '{"spec":`, 1)
	f.Advice[0] = strings.TrimSuffix(f.Advice[0], "'") + "}'"
}

// misported says of a probe that it asks a port that its container does not have: by a name that no port has, or by a number beside those
// that are declared. That is a guess where the number is concerned, as ports need not be declared.
func misported(l *converge.Look, p *corev1.Pod, container, word string, probe *corev1.Probe) (says, advice string) {
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
	if c := podspec.ContainerNamed(&p.Spec, container); c != nil {
		for i := range c.Ports {
			has = append(has, strings.TrimSuffix(fmt.Sprintf("%d (%s", c.Ports[i].ContainerPort, c.Ports[i].Name), " (")+
				strings.Repeat(")", min(len(c.Ports[i].Name), 1)))
		}
	}
	number := port == "" || port[0] >= '0' && port[0] <= '9'
	if port == "" || number && len(has) == 0 || slices.ContainsFunc(has, func(s string) bool {
		return strings.HasPrefix(s+" ", port+" ") || strings.HasSuffix(s, "("+port+")")
	}) {
		return "", ""
	}
	if len(has) == 0 {
		return "; container " + container + " has no port of the name " + port, edited(l, "name a port of the container "+port+
			", or give the probe a number")
	}
	to, _, _ := strings.Cut(has[0], " (")
	way := "httpGet"
	if at != nil {
		way = "tcpSocket"
	} else if probe.GRPC != nil {
		way = "grpc"
	}
	return "; container " + container + " declares port " + words.List(has, 3) + ", not " + port,
		retemplate(l, "have the probe ask port "+has[0]+", if that is meant", ofContainer(&p.Spec, container, `"`+strings.ToLower(word)+
			`Probe":{"`+way+`":{"port":`+to+`}}`))
}

// slowly says that a probe failed since its answer took too long.
func slowly(e *corev1.Event) bool {
	low := strings.ToLower(e.Message)
	return strings.Contains(low, "timed out") || strings.Contains(low, "timeout") || strings.Contains(low, "deadline exceeded")
}
