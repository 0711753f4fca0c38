package general

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// LetGrow is advice to let the volumes of a storage class grow; "": they may, or the class is not there. It reads the class as a tree: the
// types of storage would be linked into control planes that have none.
func LetGrow(l *converge.Look, class string) string {
	k, ok := l.Kinds.GR(storageClasses)
	if !ok {
		return ""
	}
	obj := l.Read.Lookup(k, "", class)
	if obj == nil {
		return ""
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(resource.Opened(obj))
	if grows, _ := tree["allowVolumeExpansion"].(bool); grows || err != nil {
		return ""
	}
	provisioner, _ := tree["provisioner"].(string)
	return "let volumes of that class grow, if " + provisioner + " can make them: " + converge.Merged(converge.RefTo(k, obj), true,
		"allowVolumeExpansion")
}

var storageClasses = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}

// unresizable finds the words of the API server, which operators repeat, about a claim whose class lets no volume grow.
var unresizable = pattern.New(`storageclass that provisions the pvc must support resize|(?i:storage ?class) \S* ?does(?:n't| not) ` +
	`(?:allow|support) (?:volume )?(?:expansion|resiz)`)

// growing advises to let the volumes of the class grow that the spec names, where its controller says that they may not.
func growing(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if !unresizable.MatchString(message) {
		return
	}
	classes := map[string]bool{}
	for _, v := range values("spec", tree["spec"], 0) {
		if _, field, _ := cutLast(v.path); strings.HasPrefix(strings.ToLower(field), "storageclass") {
			classes[v.text] = true
		}
	}
	for _, k := range l.Served(storageClasses) {
		for obj := range l.Read.Each(k, "") {
			std := obj.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] == "true"
			if name := obj.GetName(); !classes[name] && !words.StandsIn(message, name) && (len(classes) > 0 || !std) {
				continue
			}
			if advice := LetGrow(l, obj.GetName()); advice != "" {
				f.Advice = append([]string{advice}, f.Advice...)
				return
			}
		}
	}
}
