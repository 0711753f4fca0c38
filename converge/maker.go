package converge

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Objects that do not exist are often to be made by others, as a Secret by its Certificate: then the maker tells why.

// writes are parts of the names of fields in which custom objects name what they make.
var writes = []string{"write", "output", "publish", "destination", "target", "managed", "template"}

// makers are custom objects by the kind, namespace and name of what they are to make.
type makers map[[3]string][]Ref

func (m makers) note(kind, ns, name string, by Ref) {
	if at := [3]string{kind, ns, name}; name != "" && !slices.Contains(m[at], by) {
		m[at] = append(m[at], by)
	}
}

// made gathers those of a namespace, once, and what applies objects of any: to look into all objects of all kinds for the sake of one that
// is not there is dear, and nothing else makes objects elsewhere.
func (w *World) made(ns string) makers {
	first := w.makers == nil
	if first {
		w.makers, w.madeIn = makers{}, map[string]bool{}
	}
	for _, k := range w.Kinds.All() {
		i, in := k.Info(), ns
		switch {
		case !i.Custom:
			continue
		case i.GVK.Kind == "Application": // of Argo CD
			if in = ""; !first {
				continue
			}
		case !i.Namespaced || w.madeIn[ns]:
			continue
		}
		for obj := range w.Read.Each(k, in) {
			w.makers.read(k, obj)
		}
	}
	w.madeIn[ns] = true
	return w.makers
}

// read notes what a custom object is to make.
func (m makers) read(k resource.Kind, obj resource.Object) {
	tree, _ := words.Tree(obj)
	spec, _ := tree["spec"].(map[string]any)
	r, kind := RefTo(k, obj), k.Info().GVK.Kind
	if strings.HasSuffix(kind, "Secret") || strings.HasSuffix(kind, "User") {
		m.note("Secret", r.NS, r.Name, r)
	} else if strings.HasSuffix(kind, "Certificate") {
		m.note("Secret", r.NS, words.String(spec, "secretName"), r)
	}
	for field, v := range spec {
		m.outputs(field, v, r)
	}
	status, _ := tree["status"].(map[string]any)
	list, _ := status["resources"].([]any) // as Argo CD has what it applies
	for _, item := range list {
		part, _ := item.(map[string]any)
		m.note(words.String(part, "kind"), words.String(part, "namespace"), words.String(part, "name"), r)
	}
}

// outputs notes the Secrets in a field that tells what is to be made.
func (m makers) outputs(field string, v any, by Ref) {
	at, is := v.(map[string]any)
	low := strings.ToLower(field)
	if kind := words.String(at, "kind"); !is || kind != "" && kind != "Secret" || !slices.ContainsFunc(writes,
		func(part string) bool { return strings.Contains(low, part) }) {
		return
	}
	inner, _ := at["metadata"].(map[string]any)
	for _, name := range []string{words.String(at, "name"), words.String(at, "secretName"), words.String(inner, "name")} {
		m.note("Secret", by.NS, name, by)
	}
}

// namesakes are the custom objects that are not well, with whose names another begins. One that speaks of that itself needs it, and
// what applies anything is none.
func (l *Look) namesakes(r Ref) (list []Ref) {
	for end := strings.LastIndexByte(r.Name, '-'); end > 0 && len(list) == 0; end = strings.LastIndexByte(r.Name[:end], '-') {
		for _, k := range l.Kinds.All() {
			i := k.Info()
			if project := words.Domain(i.GVK.Group); !i.Custom || project == "fluxcd.io" || project == "argoproj.io" ||
				!l.isIll(k, r.NS, r.Name[:end]) {
				continue
			}
			if tree, _ := words.Tree(l.Read.Lookup(k, r.NS, r.Name[:end])); !strings.Contains(fmt.Sprint(tree["spec"]), r.Name) {
				list = append(list, Ref{k, r.NS, r.Name[:end]})
			}
		}
	}
	return list
}

// byMaker has who is to make what is waited for as the cause, if that is not well: an object, or a key in one that another keeps.
func (l *Look) byMaker(f *Finding) {
	if f.Waits == nil || f.Waits.On == nil || len(f.Below) > 0 {
		return
	}
	k, ok := l.Kinds.GR(schema.ParseGroupResource(f.Waits.On.Resource))
	if !ok || !l.Sees(k, f.Waits.On.Namespace) {
		return
	}
	r := Ref{k, f.Waits.On.Namespace, f.Waits.On.Name}
	obj := l.Read.Lookup(k, r.NS, r.Name)
	if obj == nil {
		l.toCome(f, r)
	} else if o := metav1.GetControllerOfNoCopy(obj); o != nil && strings.HasPrefix(f.Waits.Field, "data.") {
		if by, ok := l.KindOf(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)); ok && l.isIll(by, r.NS, o.Name) {
			f.Below = []Ref{{by, r.NS, o.Name}}
		}
	}
}

// toCome tells of the custom object that is to make what does not exist: it is the cause, if it is not well. The name of what is made often
// begins with its maker's: pg-app of the cluster pg.
func (l *Look) toCome(f *Finding, r Ref) {
	named := l.made(r.NS)[[3]string{r.Kind.Info().GVK.Kind, r.NS, r.Name}]
	if len(named) == 0 && (r.Kind == core.Secrets || r.Kind == core.ConfigMaps || r.Kind == core.Services) {
		named = l.namesakes(r)
	}
	for i := range named {
		by := &named[i]
		gvk := by.Kind.Info().GVK
		if gvk.Kind == l.Kind.Info().GVK.Kind && by.Name == l.Obj.GetName() || len(f.Below) > 0 {
			continue
		}
		says := strings.ToLower(gvk.Kind) + "/" + by.Name + " is to make it"
		if l.isIll(by.Kind, by.NS, by.Name) {
			f.Below, f.State, f.Says = named[i:i+1], Waiting, f.Says+"; "+says
		} else {
			f.Advice = append([]string{says + ", and does not say why it has not: kubectl describe " + by.Kind.Info().GR().String() + " " +
				by.Name + " -n " + by.NS}, f.Advice...)
		}
	}
}

// isIll says that an object is there and is not well.
func (w *World) isIll(k resource.Kind, ns, name string) bool {
	obj := w.Read.Lookup(k, ns, name)
	return obj != nil && !w.Health(k, obj).Converged()
}
