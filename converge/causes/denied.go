package causes

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/resource"
)

// wantsLabel finds the label that a policy says pods must have: provide labels: {"team"}, or by its path.
var wantsLabel = pattern.New(`(?i)\b(?:must|requires?d?|missing|provide)\b[^.;\n]{0,40}\blabels?:? *` +
	`[\[{('"\x60]+([\w./-]*\w)['"\x60]|/metadata/labels/([\w.-]*\w)|` +
	`\blabel ['"\x60]([\w./-]*\w)['"\x60] (?:is|must be) (?:required|set|present)`)

// wantsAmount finds that a policy wants requests or limits to be set.
var wantsAmount = pattern.New(`(?i)\b(requests|limits)\b[^.;\n]{0,30}\b(?:required?|must|missing|not set|no )|` +
	`/resources/(requests|limits)\b`)

// policyDenies completes what a rule of refusals says of policies: with the label that is wanted, and the policy.
func policyDenies(see func(l *converge.Look, text string) *converge.Finding) func(l *converge.Look, text string) *converge.Finding {
	return func(l *converge.Look, text string) *converge.Finding {
		f := see(l, text)
		if f == nil {
			return nil
		}
		for _, k := range l.Kinds.All() {
			i := k.Info()
			if !i.Custom || !strings.Contains(i.GVK.Group, "gatekeeper") && !strings.Contains(i.GVK.Group, "kyverno") {
				continue
			}
			for obj := range l.Read.Each(k, "") {
				if name := obj.GetName(); len(name) > 3 && words.StandsIn(text, name) && l.Sees(k, obj.GetNamespace()) {
					f.Advice = append([]string{"read what it asks for: kubectl get " + converge.RefTo(k, obj).Called() + " -o yaml"}, f.Advice...)
					break
				}
			}
		}
		if m := wantsAmount.FindStringSubmatch(text); m != nil {
			var sums []string
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if strings.Contains(strings.ToLower(text), string(name)) {
					sums = append(sums, string(name)+"="+usual[name])
				}
			}
			amounts := map[string]string{strings.ToLower(m[1] + m[2]): strings.Join(sums, ",")}
			if len(sums) > 0 {
				f.Advice = append([]string{resources(l, "give its containers such "+strings.ToLower(m[1]+m[2])+", of what they need", "",
					amounts["requests"], amounts["limits"])}, f.Advice...)
			}
		}
		if m := wantsLabel.FindStringSubmatch(text); m != nil {
			label := strings.ReplaceAll(m[1]+m[2]+m[3], "~1", "/")
			if give := relabelled(l, "give its pods the label "+label, label, "VALUE"); give != "" {
				f.Advice = append([]string{give}, f.Advice...)
			}
		}
		return f
	}
}

// noneFree finds words by which a pool of addresses is used up.
var noneFree = pattern.New(`(?i)no available ip|no (?:more |free )?(?:ip )?address|exhausted|not enough ip`)

// usedUp names the pools of addresses that there are, where a service gets none, and who has some of them.
func usedUp(l *converge.Look, f *converge.Finding, why string) {
	if !noneFree.MatchString(why) {
		return
	}
	var ask []string
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Custom || !strings.HasSuffix(i.GVK.Kind, "IPPool") && !strings.HasSuffix(i.GVK.Kind, "AddressPool") ||
			strings.Contains(i.GVK.Group, "calico") {
			continue
		}
		for pool := range l.Read.Each(k, "") {
			tree, _ := words.Tree(pool)
			spec, _ := tree["spec"].(map[string]any)
			has, _ := spec["addresses"].([]any)
			var list []string
			for _, a := range has {
				if text, is := a.(string); is {
					list = append(list, text)
				}
			}
			if !l.Sees(k, pool.GetNamespace()) {
				continue
			}
			name := new(converge.ObjectOf(k, pool)).Short()
			if len(list) > 0 {
				f.Says += "; " + name + " has " + words.List(list, 3)
			}
			if status, _ := tree["status"].(map[string]any); spec["autoAssign"] == false && status["availableIPv4"] != int64(0) {
				f.Says += " for who asks for it alone (autoAssign: false)"
				ask = append(ask, "ask for one of "+name+": kubectl annotate service "+converge.Called(l)+" metallb.io/address-pool="+
					pool.GetName()+" --overwrite")
				continue
			}
			f.Advice = append([]string{"give " + name + " more addresses: kubectl edit " + converge.RefTo(k, pool).Called()}, f.Advice...)
		}
	}
	f.Advice = append(ask, f.Advice...)
	var with []string
	for _, s := range resource.List(l.Read, kinds.Services, l.Obj.GetNamespace()) {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0 {
			with = append(with, "service/"+s.Name+" ("+s.Status.LoadBalancer.Ingress[0].IP+")")
		}
	}
	if len(with) > 0 {
		f.Says += "; in this namespace " + words.List(with, 3) + " got one"
	}
}

// Grown is the command that has one pod more made beside another; "": nobody here knows how.
func Grown(w *converge.World, p *corev1.Pod) string {
	top, ok := changeable(w, kinds.Pods, p)
	if !ok || top.Kind != kinds.Deployments && top.Kind != kinds.StatefulSets {
		return ""
	}
	want, _ := w.Workloads().Copies(w.Read.Lookup(top.Kind, top.NS, top.Name))
	return "kubectl scale " + top.Kind.Info().Singular + " " + top.Name + " -n " + top.NS + " --replicas=" + strconv.Itoa(int(want)+1)
}

// scaledUp is the advice to have a workload have one pod more, so that one may go.
func scaledUp(w *converge.World, p *corev1.Pod) string {
	const advice = "scale the workload up, so that one pod may go"
	if command := Grown(w, p); command != "" {
		return advice + ": " + command
	}
	return advice
}
