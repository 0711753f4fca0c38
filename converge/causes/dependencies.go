package causes

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/podspec"
	"github.com/kloop-dev/kloop/loop"
	"github.com/kloop-dev/kloop/resource"
)

// Programs need others: what a container waits for, or can't reach, stands in its command, its environment or its last words.

var (
	// seeksHost finds a host of one word that a command looks for, or a program looked up in vain.
	seeksHost = pattern.New(`(?:\b(?:nslookup|getent hosts|nc(?: -\w+)*|pg_isready -h|lookup|ENOTFOUND|wait-for-it(?:\.sh)?) +|` +
		`(?:https?|tcp|redis|amqp)://|host name "|resolve host:? ')([a-z][a-z0-9-]*)(?:[:/;"' ]|$)|` +
		`connect(?:ing)? to ([a-z][a-z0-9-]*):\d`)
)

// sought is the service that a text seeks, by the name that the cluster's DNS has for it or by one word, and that does not exist.
func sought(l *converge.Look, p *corev1.Pod, text string) (r converge.Ref, is bool) {
	r = converge.Ref{Kind: kinds.Services, NS: p.Namespace}
	if m := general.Hosted.FindStringSubmatch(text); m != nil {
		r.NS, r.Name = m[2], m[1]
	} else if m := seeksHost.FindStringSubmatch(text); m != nil && m[1]+m[2] != "localhost" {
		r.Name = m[1] + m[2]
	}
	return r, r.Name != "" && l.Sees(r.Kind, r.NS) && l.Read.Lookup(r.Kind, r.NS, r.Name) == nil
}

// given returns the command and the environment of a container.
func given(p *corev1.Pod, container string) (command, env string) {
	c := podspec.ContainerNamed(&p.Spec, container)
	if c == nil {
		return "", ""
	}
	for i := range c.Env {
		env += " " + c.Env[i].Value
	}
	return strings.Join(append(c.Command[:len(c.Command):len(c.Command)], c.Args...), " "), env
}

// awaited finds objects that the command of an init container seeks, and that do not exist or are not well.
func awaited(l *converge.Look, f *converge.Finding, p *corev1.Pod, container string) (bad []converge.Ref) {
	command, env := given(p, container)
	bad = general.Needed(l, f, p, command+env)
	for _, m := range general.SpokenLow.FindAllStringSubmatch(command, converge.MaxBranches) { // as kubectl wait job/web-migrate has it
		for _, k := range mentions.Of(l).KindsBy(m[1], "", "", true) {
			if obj := l.Read.Lookup(k, p.Namespace, m[3]); obj != nil && !l.Health(k, obj).Converged() {
				bad = append(bad, converge.RefTo(k, obj))
			}
		}
	}
	if r, is := sought(l, p, command); is && len(bad) == 0 {
		bad = append(bad, r)
	}
	return bad
}

// unreached has the service that a program could not reach, by its last words, as the cause: one that leads nowhere or does not exist.
func unreached(l *converge.Look, f *converge.Finding, p *corev1.Pod, container, said string) {
	r, gone := sought(l, p, said)
	if !unanswered.MatchString(said) && !general.Symptom.MatchString(said) && !gone {
		return
	}
	f.Below = general.Needed(l, f, p, said)
	command, env := given(p, container)
	if says, advice := severed(l, p, said+" "+env); says != "" && len(f.Below) == 0 {
		f.Says, f.Advice, f.State = f.Says+"; "+says, advice, converge.Blocked
	} else if gone && len(f.Below) == 0 && !strings.Contains(said, "timeout") {
		f.Says += "; there is no service " + r.Name + " in namespace " + r.NS
		f.Waits = converge.On("Object", r, "")
		if make := governed(l, r.Name); make != "" {
			f.Advice, f.Waits = append([]string{make}, f.Advice...), l.Field("spec.subdomain")
		} else if strings.Contains(command+env, r.Name) {
			f.Advice = append([]string{edited(l, "correct the name in the command or env of container "+container+", or make the service")},
				f.Advice...)
		}
	}
}

// headless begins the advice to make such a service.
const headless = "make the headless service"

// governed is advice to make the headless service by which pods of a StatefulSet find each other, if that has such a name; it can't be
// given another one.
func governed(l *converge.Look, name string) string {
	top, ok := changeable(l.World, l.Kind, l.Obj)
	s := resource.Get(l.Read, kinds.StatefulSets, top.NS, top.Name)
	if !ok || s == nil || s.Spec.ServiceName != name || s.Spec.Selector == nil || len(s.Spec.Selector.MatchLabels) == 0 {
		return ""
	}
	command := general.Made("v1", "Service", top.NS, name, map[string]any{"clusterIP": "None", "publishNotReadyAddresses": true,
		"selector": s.Spec.Selector.MatchLabels})
	if command == "" {
		return ""
	}
	return headless + " that statefulset/" + s.Name + " has as its serviceName: " + command
}

// needing adds what a container was given to go by and leads nowhere: it may be why the container is not well.
func needing(l *converge.Look, f *converge.Finding, p *corev1.Pod, container string) {
	command, env := given(p, container)
	bad := general.Needed(l, f, p, command+env)
	switch {
	case len(bad) == 0 || len(f.Below) > 0:
	case f.Error != nil && strings.Contains(f.Error.Message, "statuscode: 5"): // it answers that it can't do its work
		f.Below = bad
	case f.Aside == "":
		for _, step := range l.Below(loop.KeyOf(l.Kind, l.Obj), bad[:1]) {
			f.Aside = "it was given that to go by: " + step.Gap().Verdict
		}
	}
}
