package causes

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/general"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
)

// ungranted advises the ReferenceGrant that an object of the Gateway API lacks.
func ungranted(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	if !strings.Contains(message, "ReferenceGrant") && !strings.HasSuffix(f.Words, " RefNotPermitted") {
		return
	}
	where, what := "the namespace that it refers to", ""
	for _, m := range mentions.Of(l).Mentions(tree) {
		if what == "" && m.NS != "" && m.NS != l.Obj.GetNamespace() && m.Kind.Info().GVK.Kind != "Gateway" {
			where = "namespace " + words.Word(m.NS)
			what = ", to " + m.Kind.Info().Singular + "/" + words.Word(m.Name) + granting(l, m.Ref)
		}
	}
	f.Advice = []string{"in " + where + ", create a referencegrant from namespace " + l.Obj.GetNamespace() + what}
}

// granting is the command that lets objects of one kind and namespace refer to an object of another.
func granting(l *converge.Look, to converge.Ref) string {
	from, of, k := l.Kind.Info().GVK, to.Kind.Info().GVK, general.KindNamed(l.World, "gateway.networking.k8s.io", "ReferenceGrant")
	if k == nil {
		return ""
	}
	command := general.Made(k.Info().GVK.GroupVersion().String(), "ReferenceGrant", to.NS, l.Obj.GetNamespace()+"-to-"+to.Name, map[string]any{
		"from": []map[string]string{{"group": from.Group, "kind": from.Kind, "namespace": l.Obj.GetNamespace()}},
		"to":   []map[string]string{{"group": of.Group, "kind": of.Kind, "name": to.Name}}})
	if command == "" {
		return ""
	}
	return ": " + command
}
