package general

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/resource"
)

// LetGrow is advice to let the volumes of a storage class grow; "": they may, or the class is not there.
func LetGrow(l *converge.Look, class string) string {
	k, ok := l.Kinds.GR(storageClasses)
	if !ok {
		return ""
	}
	obj := l.Read.Lookup(k, "", class)
	if obj == nil {
		return ""
	}
	c := resource.As[*storagev1.StorageClass](obj)
	if ptr.Deref(c.AllowVolumeExpansion, false) {
		return ""
	}
	return "let volumes of that class grow, if " + c.Provisioner + " can make them: " + converge.Merged(converge.RefTo(k, c), true,
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
