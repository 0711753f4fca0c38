package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/apiregistration"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Leaving limits a rule to objects that are being deleted.
func Leaving(see func(l *converge.Look) *converge.Finding) func(l *converge.Look) *converge.Finding {
	return func(l *converge.Look) *converge.Finding {
		if l.Obj.GetDeletionTimestamp() == nil {
			return nil
		}
		return see(l)
	}
}

// namespaceBlind: the namespace can't be emptied of what a server that does not answer holds. kloop's own loop deletes it all
// the same, unless the server answers and refuses; upstream's waits for the server.
func namespaceBlind(l *converge.Look) *converge.Finding {
	own, _ := l.Runs(l.Owner)
	text := ""
	for _, c := range l.Obj.(*corev1.Namespace).Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			(c.Type == corev1.NamespaceDeletionDiscoveryFailure && !own || c.Type == corev1.NamespaceDeletionContentFailure) {
			text += c.Message + "\n"
		}
	}
	if text == "" {
		return nil
	}
	for _, a := range resource.List(l.Read, apiregistration.APIServices, "") {
		if !strings.Contains(text, a.Spec.Group) || l.Health(apiregistration.APIServices, a).Converged() {
			continue
		}
		r := converge.RefTo(apiregistration.APIServices, a)
		return &converge.Finding{Says: "waits for the API group " + a.Spec.Group + ", whose server does not answer",
			State: converge.Blocked,
			Waits: converge.On("APIService", r, "status.conditions[Available]"),
			Next:  converge.Does(l.Owner, "goes on when apiservice/%s is available or gone", a.Name),
			Aside: "it waits for the API group " + a.Spec.Group + ", whose server does not answer: apiservice/" + a.Name,
			Also:  []string{"or, if that API is no longer used: kubectl delete apiservice " + a.Name},
			Advice: []string{"bring the server behind the APIService back, or delete the APIService if it is no longer used: kubectl " +
				"delete apiservice " + a.Name},
			Below: []converge.Ref{r}}
	}
	return nil
}

// remaining are the objects left in a namespace, those that are held by finalizers first.
func remaining(l *converge.Look, ns string) (left []converge.Ref) {
	var rest []converge.Ref
	for _, k := range l.Kinds.All() {
		i := k.Info()
		if !i.Namespaced || i.Virtual || !slices.Contains(i.Verbs, "delete") || i.GR() == (schema.GroupResource{Resource: "events"}) {
			continue
		}
		for obj := range l.Read.Each(k, ns) {
			switch {
			case len(obj.GetFinalizers()) > 0:
				left = append(left, converge.RefTo(k, obj))
			case len(rest) < converge.MaxLooks:
				rest = append(rest, converge.RefTo(k, obj))
			}
			if len(left) > converge.MaxLooks {
				return left
			}
		}
	}
	return append(left, rest...)
}

// namespaceHeld: what is left in the namespace is held by finalizers.
func namespaceHeld(l *converge.Look) *converge.Finding {
	left := remaining(l, l.Obj.GetName())
	if len(left) == 0 || len(l.Read.Lookup(left[0].Kind, left[0].NS, left[0].Name).GetFinalizers()) == 0 {
		return nil
	}
	return namespaceNotEmpty(l)
}

func namespaceNotEmpty(l *converge.Look) *converge.Finding {
	left := remaining(l, l.Obj.GetName())
	if len(left) == 0 {
		return nil
	}
	first := converge.Named(left[0].Kind, left[0].NS, left[0].Name)
	return &converge.Finding{Says: "still holds " + first.Short() + AndMore(len(left)-1), State: converge.Waiting,
		Waits: converge.On("Object", left[0], ""),
		Next:  converge.Does(l.Owner, "finishes when the namespace is empty"), Below: left}
}

// namespaceFinalizer: a namespace has finalizers in its spec too, which are removed by the subresource finalize alone.
func namespaceFinalizer(l *converge.Look) *converge.Finding {
	n := l.Obj.(*corev1.Namespace)
	for _, name := range n.Spec.Finalizers {
		if name == corev1.FinalizerKubernetes || len(n.Finalizers) > 0 {
			continue
		}
		domain, _, _ := strings.Cut(string(name), "/")
		who := cmp.Or(foreign[domain], "the controller behind "+domain)
		return &converge.Finding{Says: "is empty and held by the finalizer " + string(name) + " of its spec", Owner: who,
			State: converge.Blocked,
			Waits: converge.On("Field", converge.RefTo(l.Kind, n), "spec.finalizers"),
			Next:  converge.Does(who, "removes the finalizer when its work is done"),
			Advice: []string{"look whether " + who + " runs, and at its log",
				"if it will never come back, remove the finalizer by hand: what it was to clean up stays behind: " +
					`kubectl get namespace ` + n.Name + ` -o json | sed 's|"` + string(name) +
					`"|"kubernetes"|' | kubectl replace --raw /api/v1/namespaces/` + n.Name + `/finalize -f -`}}
	}
	return nil
}

// AndMore counts what is left out of a list.
func AndMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func instancesRemain(l *converge.Look) *converge.Finding {
	d := resource.Outline[*apiextensionsv1.CustomResourceDefinition](l.Obj)
	k, ok := l.Kinds.GR(schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural})
	if !ok {
		return nil
	}
	var left []converge.Ref
	for obj := range l.Read.Each(k, "") {
		left = append(left, converge.RefTo(k, obj))
		if len(left) > converge.MaxLooks {
			break
		}
	}
	if len(left) == 0 {
		return nil
	}
	return &converge.Finding{Says: "still has " + words.Count(len(left), "object"), State: converge.Waiting,
		Waits: converge.On("Object", left[0], ""),
		Next:  converge.Does(l.Owner, "finishes when the last object of the kind is gone"), Below: left}
}

// dependentsRemain: deletion in the foreground waits for those that block it.
func dependentsRemain(l *converge.Look) *converge.Finding {
	if !slices.Contains(l.Obj.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return nil
	}
	others := slices.ContainsFunc(l.Obj.GetFinalizers(), strange)
	var left []converge.Ref
	for _, k := range l.Kinds.All() {
		if k.Info().Virtual {
			continue
		}
		for obj := range l.Read.ByOwner(k, string(l.Obj.GetUID())) {
			if slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return o.UID == l.Obj.GetUID() && ptr.Deref(o.BlockOwnerDeletion, false)
			}) {
				left = append(left, converge.RefTo(k, obj))
			}
		}
	}
	if len(left) == 0 && others { // the collector waits for nobody then
		return nil
	}
	f := &converge.Finding{Owner: "garbage-collector", Says: "waits for what depends on it",
		Next:  converge.Does("garbage-collector", "removes the finalizer foregroundDeletion when they are gone"),
		Waits: converge.ForName("Finalizer", metav1.FinalizerDeleteDependents), State: converge.Waiting, Below: left}
	if len(left) == 0 {
		return f
	}
	f.Says += ": " + converge.Named(left[0].Kind, left[0].NS, left[0].Name).Short() + AndMore(len(left)-1)
	return f
}

// known are the finalizers of our own loops.
var known = map[string]string{"kubernetes.io/pvc-protection": "pvc-protection", "kubernetes.io/pv-protection": "pv-protection",
	metav1.FinalizerOrphanDependents: "garbage-collector", metav1.FinalizerDeleteDependents: "garbage-collector",
	"batch.kubernetes.io/job-tracking":         "job",
	"networking.k8s.io/service-cidr-finalizer": "service-cidr", apiextensionsv1.CustomResourceCleanupFinalizer: "definition",
	"kubernetes": "namespace"}

// strange says that a finalizer is not one of our own loops.
func strange(finalizer string) bool { return known[finalizer] == "" }

// foreign names the programs that set finalizers which many clusters have, by name or by what stands before the slash.
var foreign = map[string]string{"service.kubernetes.io/load-balancer-cleanup": "the load balancer controller",
	"external-provisioner.volume.kubernetes.io": "the CSI provisioner",
	"external-attacher":                         "the CSI attacher", "snapshot.storage.kubernetes.io": "the CSI snapshotter",
	"resources-finalizer.argocd.argoproj.io": "Argo CD", "finalizers.fluxcd.io": "Flux"}

// jobTracking is batchv1.JobTrackingFinalizer, which TestJobTracking holds it to.
const jobTracking = "batch.kubernetes.io/job-tracking"

// Tracked says that nothing holds a pod but its job, which lets it go as soon as it has ended: what keeps it from ending is the news.
func Tracked(p *corev1.Pod) bool {
	return len(p.Finalizers) == 1 && p.Finalizers[0] == jobTracking &&
		!core.Terminal(p)
}

// held finds what the status of an object that has to go says against that.
func held(tree map[string]any) string {
	status, _ := tree["status"].(map[string]any)
	conds := words.ConditionsIn(status)
	for _, typ := range slices.Sorted(maps.Keys(conds)) {
		if c := conds[typ]; words.Plight(typ, c) && words.Faulty.MatchString(c.Message) {
			return c.Message
		}
	}
	return words.ComplaintIn(tree).Message
}

// finalizerStuck comes after all situations that know what a finalizer waits for. Whose it is follows from the table known, else from
// who watches the kind; where nobody does, the advice is to take it away by hand, with what that costs.
func finalizerStuck(l *converge.Look) *converge.Finding {
	if p, is := l.Obj.(*corev1.Pod); len(l.Obj.GetFinalizers()) == 0 || is && Tracked(p) {
		return nil
	}
	name := l.Obj.GetFinalizers()[max(0, slices.IndexFunc(l.Obj.GetFinalizers(), strange))]
	f := &converge.Finding{Says: "is held by the finalizer " + name, State: converge.Blocked, Waits: converge.ForName("Finalizer", name)}
	if own, ok := known[name]; ok {
		f.Owner = own
		f.Next = converge.Does(own, "removes the finalizer when its work is done")
		if runs, sure := l.Runs(own); sure && !runs {
			f.State, f.Says = converge.Missing, f.Says+", and the loop "+own+" does not run here"
		} else if l.Loops == nil {
			f.Advice = []string{"look whether the controller manager runs, and at its log: kubectl get pods -A"}
		}
		return f
	}
	if n := len(l.Obj.GetFinalizers()); n > 1 {
		f.Says += AndMore(n - 1)
	}
	if tree, ok := words.Tree(l.Obj); ok {
		f.Told = words.OneLine(held(tree))
	}
	told, aside, advice := l.Workloads().Held(l.World, l.Obj)
	if n := nodeOf(l); n != nil && aside == "" {
		_, aside, advice = l.Workloads().Held(l.World, n)
	}
	if f.Aside = aside; told != "" {
		f.Told = words.OneLine(told)
	}
	if e := NewestWarning(l); e != nil && f.Told == "" {
		f.Told, f.Error = words.OneLine(e.Message), EventFailure(e)
	}
	who, here := finalizes(l, name)
	f.Owner = who
	f.Next = converge.Does(who, "removes the finalizer when its work is done")
	f.Advice = []string{"look at the log of " + who}
	if l.Outside() {
		finalizerAbroad(l, f, name, who)
	}
	if !here {
		f.State, f.Says = converge.Missing, f.Says+", and no controller watches "+l.Kind.Info().GR().String()
		f.Next = converge.Does(who, "removes the finalizer when it runs again; it is not connected now")
		f.Advice = []string{"start the controller that set the finalizer again",
			"if it will never come back, remove the finalizer by hand; what it was to clean up stays behind: " + without(l, name)}
	}
	if aside != "" && advice != "" {
		f.Says, f.Aside, f.Advice = f.Says+"; "+aside, "", []string{advice}
	} else {
		toldByHolder(l, f)
	}
	if hook, config := barring(l.World, l.Kind); hook != "" {
		f.Says += "; no change of it is let through, the removal of its finalizers neither: the webhook " + hook +
			" has to agree, and is down"
		f.Advice = append([]string{"bring the server of that webhook back or, if it will never run again, first delete what asks it: " +
			"kubectl delete " + config}, f.Advice...)
	}
	return f
}

// nodeOf is the node for which an object of a kind that users defined was made, by its status, as a NodeClaim or a Machine has it; nil: it
// names none.
func nodeOf(l *converge.Look) *corev1.Node {
	tree, _ := words.Tree(l.Obj)
	status, _ := tree["status"].(map[string]any)
	ref, _ := status["nodeRef"].(map[string]any)
	return resource.Get(l.Read, core.Nodes, "", cmp.Or(words.String(status, "nodeName"), words.String(ref, "name")))
}

// finalizes guesses whose a finalizer is, and whether that controller is connected.
func finalizes(l *converge.Look, name string) (who string, here bool) {
	domain, _, _ := strings.Cut(name, "/")
	who = cmp.Or(foreign[name], cmp.Or(foreign[domain], "the controller behind "+domain))
	for _, m := range l.Obj.GetManagedFields() {
		if m.FieldsV1 != nil && !converge.ByHand(m.Manager) && m.Manager != "kube-controller-manager" &&
			strings.Contains(string(m.FieldsV1.Raw),
				`"v:\"`+name+`\""`) {
			who = m.Manager
		}
	}
	return who, !l.Unwatched(l.Kind.Info().GR())
}

// without is the command that takes a finalizer from the object, and leaves it the others.
func without(l *converge.Look, finalizer string) string {
	left := slices.DeleteFunc(slices.Clone(l.Obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	to := "null"
	if len(left) > 0 {
		to = `["` + strings.Join(left, `","`) + `"]`
	}
	command := "kubectl patch " + l.Kind.Info().GR().String() + " " + l.Obj.GetName()
	if ns := l.Obj.GetNamespace(); ns != "" {
		command += " -n " + ns
	}
	return command + ` --type=merge -p '{"metadata":{"finalizers":` + to + `}}'`
}

// namespaceTold: what is left in the namespace is not to be seen by who asks, and the namespace tells of it.
func namespaceTold(l *converge.Look) *converge.Finding {
	n := l.Obj.(*corev1.Namespace)
	var told []string
	for _, typ := range []corev1.NamespaceConditionType{corev1.NamespaceFinalizersRemaining, corev1.NamespaceContentRemaining,
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionContentFailure, corev1.NamespaceDeletionGVParsingFailure} {
		for _, c := range n.Status.Conditions {
			if c.Type == typ && c.Status == corev1.ConditionTrue && c.Message != "" {
				told = append(told, words.OneLine(c.Message))
			}
		}
	}
	if len(told) == 0 {
		return nil
	}
	return &converge.Finding{Says: "is not empty, by its own word: " + strings.Join(told, "; "), State: converge.Blocked,
		Waits:  converge.On("Field", converge.RefTo(l.Kind, n), "status.conditions"),
		Next:   converge.Does(l.Owner, "finishes when the namespace is empty"),
		Advice: []string{"see all that it says: kubectl describe namespace " + n.Name}}
}
