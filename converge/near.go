package converge

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// notByName are the kinds whose objects people do not name: one of a name that is like another's is not what was meant.
var notByName = []schema.GroupResource{{Resource: "pods"}, {Resource: "nodes"}, {Resource: "persistentvolumes"},
	{Group: "batch", Resource: "jobs"}, {Group: "coordination.k8s.io", Resource: "leases"}, {Group: "apps", Resource: "replicasets"}}

// maxNear bounds the names that one is compared with.
const maxNear = 2000

// manyKeys begins advice on keys of which each may be meant.
const manyKeys = "there are the keys "

// NearTo advises to name another object, or key, where what is waited for does not exist and one is there whose name is like it.
func (w *World) NearTo(wait *convergence.Wait) string {
	if wait == nil || wait.On == nil {
		return ""
	}
	k, ok := w.Kinds.GR(schema.ParseGroupResource(wait.On.Resource))
	if !ok || slices.Contains(notByName, k.Info().GR()) || !w.Sees(k, wait.On.Namespace) {
		return ""
	}
	obj := w.Read.Lookup(k, wait.On.Namespace, wait.On.Name)
	key, is := strings.CutPrefix(wait.Field, "data.")
	if obj != nil && !is {
		return ""
	}
	if obj != nil {
		has := DataKeys(obj)
		meant, several := likely(key, has)
		switch {
		case several || meant == "" && len(has) > 1 && len(has) <= MaxBranches:
			return manyKeys + words.List(has, 4) + " in " + wait.On.Short() + ": name one of them, if that is meant"
		case meant == "" && len(has) == 1:
			return "there is the key " + has[0] + " in " + wait.On.Short() + " alone" + nameIt
		case meant != "" && meant != key:
			return "there is the key " + meant + " in " + wait.On.Short() + nameIt
		}
		return ""
	}
	if other := w.namesake(k, wait.On.Namespace, wait.On.Name); other != "" {
		return other
	}
	if meant := w.Like(k, wait.On.Namespace, wait.On.Name); meant != "" {
		o := *wait.On
		o.Name = meant
		return "there is " + o.Short() + nameIt
	}
	return ""
}

// OnlyOne advises to name the one object of a kind that there is, in place of one that is not, where such are few and made to be named;
// "": there are none, or several.
func (w *World) OnlyOne(wait *convergence.Wait) string {
	if wait == nil || wait.On == nil || wait.Field != "" {
		return ""
	}
	k, ok := w.Kinds.GR(schema.ParseGroupResource(wait.On.Resource))
	if !ok || !k.Info().Custom && !strings.HasSuffix(k.Info().GVK.Kind, "Class") || !w.Sees(k, wait.On.Namespace) ||
		w.Read.Lookup(k, wait.On.Namespace, wait.On.Name) != nil {
		return ""
	}
	o := *wait.On
	o.Name = ""
	for obj := range w.Read.Each(k, wait.On.Namespace) {
		if o.Name != "" {
			return ""
		}
		o.Name = obj.GetName()
	}
	if o.Name == "" {
		return ""
	}
	return "there is " + o.Short() + " alone" + nameIt
}

// namesake advises to name an object of the same name that is of another kind, of two that differ by a word as Issuer and ClusterIssuer, or
// in another namespace.
func (w *World) namesake(k resource.Kind, ns, name string) string {
	i := k.Info()
	for _, other := range w.Kinds.All() {
		o := other.Info()
		if a, b := i.GVK.Kind, o.GVK.Kind; other == k || o.GVK.Group != i.GVK.Group || a != "Cluster"+b && b != "Cluster"+a {
			continue
		}
		if obj := w.Read.Lookup(other, "", name); obj != nil || ns != "" && w.Read.Lookup(other, ns, name) != nil {
			return "there is " + o.Singular + "/" + name + ": say that it is a " + o.GVK.Kind + ", if that is meant"
		}
	}
	copied := k == core.Secrets || k == core.ConfigMaps
	if !i.Custom && !copied && k != core.Services && k != core.PersistentVolumeClaims && i.GVK.Group != "apps" {
		return ""
	}
	or := "have both in one namespace"
	if copied {
		or = "make it in " + ns + " too"
	}
	n := 0
	for obj := range w.Read.Each(k, "") {
		if in := obj.GetNamespace(); obj.GetName() == name && in != ns && w.Sees(k, in) {
			if or = "there is " + i.Singular + "/" + name + " in namespace " + in + ": name that, where it may be, or " + or; copied {
				or += ": " + Copied(Ref{k, in, name}, ns)
			}
			return or
		}
		if n++; n == maxNear {
			break
		}
	}
	return ""
}

// Like is the name of the object that is called most like another that is not there; "": none is. It is remembered, for many may wait
// for one.
func (w *World) Like(k resource.Kind, ns, name string) (meant string) {
	at := Ref{k, ns, name}
	if meant, known := w.likest[at]; known {
		return meant
	}
	var names []string
	for other := range w.Read.Each(k, ns) {
		if names = append(names, other.GetName()); len(names) == maxNear {
			break
		}
	}
	if w.likest == nil {
		w.likest = map[Ref]string{}
	}
	w.likest[at] = Likest(name, names)
	return w.likest[at]
}

// DataKeys are the keys of a Secret or ConfigMap.
func DataKeys(obj resource.Object) []string {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return slices.Sorted(maps.Keys(obj.Data))
	case *corev1.ConfigMap:
		return slices.AppendSeq(slices.Sorted(maps.Keys(obj.Data)), maps.Keys(obj.BinaryData))
	}
	return nil
}

// likely is the key that is most like another, or says that there are several of which each may be meant.
func likely(key string, known []string) (meant string, several bool) {
	meant = Likest(key, slices.Clone(known))
	stem, _, isFile := strings.Cut(key, ".")
	alike := 0
	for _, k := range known {
		if strings.HasPrefix(k, stem+".") {
			alike++
		}
	}
	return meant, isFile && alike > 1 && len(known) <= 4 // as tls.pem beside tls.crt and tls.key
}

// Likest is the word that is most like another: by its letters, or since one begins or ends with the other. Of words that differ in
// their numbers alone none is.
func Likest(word string, known []string) string {
	bare := strings.Map(noDigit, word)
	known = slices.DeleteFunc(known, func(k string) bool { return strings.Map(noDigit, k) == bare })
	if meant := words.Between(strict.Meant(word, known), "did you mean ", "?"); meant != "" {
		return meant
	}
	for _, k := range known {
		if len(k) > 2 && len(word) > 2 && (strings.HasPrefix(k, word) || strings.HasPrefix(word, k) || strings.HasSuffix(word, k) ||
			strings.HasSuffix(k, word)) {
			return k
		}
	}
	return ""
}

func noDigit(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}
