package converge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// Advice to name another object, or key, gets the command that does so, where the name stands in the object itself or in the template by
// which it was made.

// nameIt ends such advice.
const nameIt = ": name it, if that is meant"

var (
	// proposed finds the name in it.
	proposed = pattern.New(`^there is (?:the key ([\w.-]+) in|[a-z0-9-]+/([a-z0-9.-]+))`)
	// otherKind finds the kind in advice to say that what is named is of another one.
	otherKind = pattern.New(`: say that it is a ([A-Za-z]+), if that is meant$`)
	// ownName finds the paths of fields in which a spec gives names of its own.
	ownName = pattern.New(`/(?:containers|initContainers|volumes|volumeMounts|ports|env|rules|listeners)/\d+/name$|` +
		`/(?:metadata|labels|matchLabels|selector|annotations)/|/(?:image|mountPath|kind|apiVersion|namespace)$|` +
		`/(?:args|command)/\d+$|/env/\d+/value$`)
	// ofPair finds the paths of fields that name a secret with a certificate and its key.
	ofPair = pattern.New(`/(?:ca|tls(?:/\d+)?)/secretName$|/tls/certificateRefs/\d+/name$`)
	// runsOnce finds kinds whose objects are made anew, and not changed.
	runsOnce = pattern.New(`(?:Run|Workflow|Job|Backup|Restore|Migration|Request)$`)
	// lasting are kinds whose spec can't be changed, or in little of it.
	lasting = []string{"Pod", "Job", "PersistentVolumeClaim", "ResourceClaim"}
	// remade are kinds whose template makes what a person would change.
	remade = []string{"Deployment", "StatefulSet", "DaemonSet", "CronJob"}
)

// rename completes such advice.
func (l *Look) rename(f *Finding) {
	if f.Waits == nil || f.Waits.On == nil {
		return
	}
	for i, a := range f.Advice {
		if m := otherKind.FindStringSubmatch(a); m != nil {
			if command := l.renaming(f.Waits.On.Name, "", false, "", m[1]); command != "" {
				f.Advice = slices.Clone(f.Advice)
				f.Advice[i] = a + ": " + command
			}
			continue
		}
		if strings.HasPrefix(a, manyKeys) {
			l.oneOf(f, i)
			return
		}
		m := proposed.FindStringSubmatch(a)
		if m == nil || !strings.HasSuffix(a, nameIt) {
			continue
		}
		old, isKey := strings.CutPrefix(f.Waits.Field, "data.")
		if isKey != (m[1] != "") {
			continue
		}
		if !isKey {
			old = f.Waits.On.Name
		}
		command := l.renaming(old, m[1]+m[2], isKey, f.Waits.On.Name, "")
		if command == "" && f.Waits.On.Kind == "Service" {
			command = rehost(l, old, m[2])
		}
		if command != "" {
			f.Advice = slices.Clone(f.Advice)
			f.Advice[i] = a + ": " + command
			f.Also = slices.DeleteFunc(slices.Clone(f.Also), func(a string) bool { return strings.HasPrefix(a, Again) && isAnew(command) })
		} else if word := map[string]string{"Secret": "secret", "ConfigMap": "configmap"}[f.Waits.On.Kind]; word != "" && !isKey && l.runs() &&
			plainName.MatchString(old+f.Waits.On.Namespace) {
			f.Advice = slices.Clone(f.Advice)
			f.Advice[i] = strings.TrimSuffix(a, nameIt) + ": if that is meant, copy it, as what runs can't be changed: kubectl get " + word +
				" " + m[2] + " -n " + f.Waits.On.Namespace + " -o yaml | sed 's/name: " + m[2] + "/name: " + old + "/' | kubectl apply -f -"
		}
	}
}

// Again begins advice to have what runs once run again as it is.
const Again = "then have it run again"

// isAnew says that a command makes an object anew.
func isAnew(command string) bool {
	return strings.HasSuffix(command, " | kubectl replace --force -f -")
}

// oneOf gives advice on keys of which each may be meant a command for each.
func (l *Look) oneOf(f *Finding, i int) {
	k, _ := l.Kinds.GR(schema.ParseGroupResource(f.Waits.On.Resource))
	obj := l.Read.Lookup(k, f.Waits.On.Namespace, f.Waits.On.Name)
	if each := Each(DataKeys(obj), func(key string) string {
		return l.renaming(strings.TrimPrefix(f.Waits.Field, "data."), key, true, f.Waits.On.Name, "")
	}); len(each) > 0 {
		f.Advice = slices.Replace(slices.Clone(f.Advice), i, i+1, each...)
	}
}

// runs says that an object is a pod whose template can't be changed any more, as that of a Job.
func (l *Look) runs() bool {
	k, obj := l.Template()
	return l.Kind == core.Pods && obj == nil && metav1.GetControllerOfNoCopy(l.Obj) != nil && k == nil
}

// renaming is the command that puts a name in the place of another, or a key in that of another of an object, or another kind beside a
// name; "": the old one is not found.
func (l *Look) renaming(old, name string, isKey bool, of, kind string) string {
	k, obj := l.Template()
	if obj == nil {
		k, obj = l.source(old, true)
	}
	anew := obj == nil
	if anew {
		k, obj = l.LastingTop()
	}
	if obj == nil {
		return ""
	}
	if of, other := l.Referred(old); other != nil && custom(obj) && !hasText(obj, old) {
		k, obj = of, other
	}
	tree, custom := words.Tree(obj)
	if !custom {
		data, err := json.Marshal(obj)
		if err != nil || json.Unmarshal(data, &tree) != nil {
			return ""
		}
	}
	var ops []Change
	placesOf(tree["spec"], "/spec", 0, func(path string, beside map[string]any, text string) {
		in, bare, is := strings.Cut(text, "/")
		if is && bare == old && plainName.MatchString(in) && !isKey && kind == "" { // as gateways: [ns/name]
			ops = append(ops, Put(path, in+"/"+name))
		}
		if text != old || path == "/spec/serviceName" && k.Info().GVK.Kind == "StatefulSet" || ownName.MatchString(path) || isKey &&
			(!strings.HasSuffix(strings.ToLower(path), "key") || !hasName(beside, of) && !strings.Contains(path, "/items/")) {
			return
		}
		if at, is := strings.CutSuffix(path, "/name"); kind != "" && is {
			ops = append(ops, Add(at+"/kind", kind))
		} else if kind == "" {
			ops = append(ops, Put(path, name))
		}
	})
	switch {
	case len(ops) == 0 && !isKey && kind == "":
		return relabelling(RefTo(k, obj), obj, old, name)
	case len(ops) == 0 || len(ops) > 4:
		return ""
	case custom && runsOnce.MatchString(k.Info().GVK.Kind):
		return again(k, obj, tree, ops)
	case anew:
		return Anew(RefTo(k, obj), ops...)
	}
	return Patched(RefTo(k, obj), ops...)
}

// relabelling is the command that puts a name in the place of another in a label or an annotation of a project's own; "": none has it.
func relabelling(r Ref, obj resource.Object, old, name string) string {
	for verb, notes := range map[string]map[string]string{"label": obj.GetLabels(), "annotate": obj.GetAnnotations()} {
		for _, key := range slices.Sorted(maps.Keys(notes)) {
			if value := notes[key]; strings.Contains(key, "/") && (value == old || strings.HasSuffix(value, "/"+old)) &&
				plainName.MatchString(name) {
				return "kubectl " + verb + " " + r.Called() + " " + key + "=" + strings.TrimSuffix(value, old) + name + " --overwrite"
			}
		}
	}
	return ""
}

// hasName says that one of the fields beside a key names an object.
func hasName(beside map[string]any, name string) bool {
	for field := range beside {
		if strings.HasSuffix(strings.ToLower(field), "name") && words.String(beside, field) == name {
			return true
		}
	}
	return false
}

// OfKind is the command by which an object gives another kind to a name that it has; "": the name is not found.
func (l *Look) OfKind(name, kind string) string { return l.renaming(name, "", false, "", kind) }

// Template is the object in which a person changes what an object names: itself, or the workload at the top that makes it; nil: another
// controller would change it back, or it can't be changed.
func (l *Look) Template() (resource.Kind, resource.Object) {
	k, obj := l.Top(l.Kind, l.Obj)
	if obj == nil {
		return nil, nil
	}
	made := slices.Contains(remade, k.Info().GVK.Kind)
	if kind := k.Info().GVK.Kind; !made && (k != l.Kind || slices.Contains(lasting, kind)) {
		return nil, nil
	}
	return k, obj
}

// source is the object of an operator from which a name came into an object that was made for it: the one farthest up that has it, or what
// one of those refers to, as a Challenge to its ClusterIssuer; nil: none has it.
// Those above count only if that is said.
func (l *Look) source(name string, above bool) (k resource.Kind, obj resource.Object) {
	up := l.madeBy()
	for range MaxDepth {
		if up == nil {
			break
		}
		if of, other := up.Referred(name); other != nil {
			k, obj = of, other
		} else if above && hasText(up.Obj, name) && (obj == nil || k == up.Kind) {
			k, obj = up.Kind, up.Obj
		}
		up = up.madeBy()
	}
	if obj != nil && (obj.GetUID() == l.Obj.GetUID() || metav1.GetControllerOfNoCopy(obj) != nil) { // that is no one's own words
		return nil, nil
	}
	return k, obj
}

// custom says that an object is of a kind that users defined.
func custom(obj resource.Object) bool {
	_, is := words.Tree(obj)
	return is
}

// hasText says that a custom object has a text in its spec.
func hasText(obj resource.Object, name string) (is bool) {
	tree, custom := words.Tree(obj)
	placesOf(tree["spec"], "", 0, func(_ string, _ map[string]any, text string) { is = is || text == name })
	return is && custom
}

// Referred is the object of the same project that this one refers to by kind and name, and that has a text; nil: none has.
func (l *Look) Referred(name string) (k resource.Kind, obj resource.Object) {
	tree, _ := words.Tree(l.Obj)
	placesOf(tree["spec"], "", 0, func(path string, beside map[string]any, text string) {
		stem, byRef := strings.CutSuffix(path, "Ref/name")
		stem = stem[strings.LastIndexByte(stem, '/')+1:]
		for _, other := range l.Kinds.All() {
			i, ns := other.Info(), l.Obj.GetNamespace()
			if !i.Custom || (i.GVK.Kind != text || words.String(beside, "kind") != text) &&
				(!byRef || len(stem) < 4 || !strings.HasSuffix(strings.ToLower(i.GVK.Kind), strings.ToLower(stem))) {
				continue
			}
			if !i.Namespaced {
				ns = ""
			}
			if of := l.Read.Lookup(other, ns, words.String(beside, "name")); of != nil && l.Sees(other, ns) && hasText(of, name) {
				k, obj = other, of
			}
		}
	})
	return k, obj
}

// Paths are the JSON pointers to the texts of a custom object's spec that a rule takes.
func Paths(obj resource.Object, is func(path, text string) bool) (list []string) {
	tree, _ := words.Tree(obj)
	placesOf(tree["spec"], "/spec", 0, func(path string, _ map[string]any, text string) {
		if is(path, text) {
			list = append(list, path)
		}
	})
	return list
}

// placesOf goes through the texts of a tree, with the JSON pointer to each and what stands beside it.
func placesOf(v any, path string, depth int, see func(path string, beside map[string]any, text string)) {
	if depth > 16 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			at := path + Pointer(field)
			if text, is := v[field].(string); is {
				see(at, v, text)
			} else {
				placesOf(v[field], at, depth+1, see)
			}
		}
	case []any:
		for i, item := range v {
			if text, is := item.(string); is {
				see(fmt.Sprintf("%s/%d", path, i), nil, text)
			} else {
				placesOf(item, fmt.Sprintf("%s/%d", path, i), depth+1, see)
			}
		}
	}
}

// MakeSecret is the command that makes a Secret or ConfigMap with the keys that a spec asks for of it; "": it tells of none.
func MakeSecret(spec any, kind, ns, name string) string {
	word := map[string]string{"Secret": "secret generic", "ConfigMap": "configmap"}[kind]
	keys, pair := map[string]bool{}, false
	placesOf(spec, "", 0, func(path string, beside map[string]any, text string) {
		if key := words.String(beside, "key"); text == name && key != "" && strings.HasSuffix(strings.ToLower(path), "name") {
			keys[key] = true
		}
		pair = pair || text == name && ofPair.MatchString(path)
	})
	if pair && kind == "Secret" && plainName.MatchString(name+ns) {
		return "kubectl create secret tls " + name + " -n " + ns + " --cert=CERT --key=KEY"
	}
	if word == "" || len(keys) == 0 || !plainName.MatchString(name+ns) {
		return ""
	}
	command := "kubectl create " + word + " " + name + " -n " + ns
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != "" {
			return ""
		}
		command += " --from-literal=" + key + "=VALUE"
	}
	return command
}
